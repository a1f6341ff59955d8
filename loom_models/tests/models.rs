// SPDX-License-Identifier: Apache-2.0

//! One test for each model. `cargo test --package loom_models -- --nocapture` prints how many interleavings each one has.

macro_rules! models {
    ($($model:ident),* $(,)?) => {$(
        #[test]
        fn $model() {
            loom_models::$model();
        }
    )*};
}

models![
    a_queued_sample_is_accepted_by_the_next_holder_of_the_lock,
    every_sample_is_accepted_or_counted_once,
    a_recording_that_may_wait_loses_nothing,
    a_message_is_in_the_window_of_its_time,
    an_overflow_while_a_window_ends_leaves_no_wrong_figure,
    a_message_of_another_epoch_is_not_recorded,
    nothing_is_recorded_after_the_statistics_were_disabled,
    every_duration_is_in_one_window,
    a_duration_from_before_a_pause_is_not_in_the_window_after_it,
    a_period_is_between_two_publications_that_follow_each_other,
    a_period_that_is_carried_over_is_between_two_publications_that_follow_each_other,
    every_count_is_in_one_window,
    readings_of_two_threads_are_no_jump,
    a_watcher_misses_no_window,
    a_change_wakes_the_thread_and_closing_ends_it,
    closing_publishes_each_finished_window_once,
    no_message_is_published_after_its_handle_was_dropped,
    a_dropped_source_is_not_enabled_again,
    the_totals_have_a_subscription_once_while_it_is_dropped,
];
