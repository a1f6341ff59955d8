// SPDX-License-Identifier: Apache-2.0
// Alerts, recording rules and dashboards as a monitoring mixin. docs/alerts.md describes them.
//
// alerts.yml and rules.yml are rendered from it: cargo test -p topic_statistics_exporter --test it -- mixin
local mixin = {
  _config:: {
    // The exporters: scraped, or pushing.
    exporters: 'job=~"topic_statistics(_exporter)?"',
    // Robots that are never switched off on purpose. Only they page when nothing is known of them.
    alwaysOn: 'always_on="true"',
    // What a robot is, and what robots share.
    robot: 'job, instance',
    site: 'job, site',
    // Robots that are said to share a network.
    ofSite: 'site!=""',
    runbook: 'https://github.com/rclrs-topic-statistics/rclrs_topic_statistics/blob/main/docs/alerts.md#',
    // The share of messages lost that is a ticket.
    lossRatio: 0.01,
    // The share of calls without a response that is a ticket, and of skipped periods.
    missedRatio: 0.01,
    // Fewer lost messages, calls or periods in 10 minutes are no ticket, whatever their share is.
    least: 5,
    // How often an exporter may start in an hour.
    starts: 5,
    // How long a call may wait for its response, in seconds.
    oldestCall: 600,
    // The share of its time for which a thread may run callbacks, as a percentage.
    busy: 95,
    // The share of windows that is healthy, of each judged source, over 28 days.
    objective: 0.99,
    // How far a clock may be off, in seconds.
    clockOffset: 0.01,
  },

  local config = self._config,
  local topic = config.robot + ', node, topic',
  local source = topic + ', name',
  // What an operator has said to be gone, in a rule of their own: an instance, or a node of an instance.
  local gone = 'topic_statistics:gone',

  // The source of an alert: node and topic, or node and name.
  local of(source) = '{{ $labels.instance }}: ' + source,
  local alert(name, expr, duration, severity, summary, description) = {
    alert: name,
    expr: expr,
    'for': duration,
    labels: { severity: severity },
    annotations: { summary: summary, description: description, runbook_url: config.runbook + std.asciiLower(name) },
  },

  // The windows of the burn rates: a long one, a short one that ends the alert soon, the factor, and the severity.
  local burns = [
    { long: '1h', short: '5m', factor: 14.4, severity: 'page', 'for': '2m' },
    { long: '6h', short: '30m', factor: 6, severity: 'page', 'for': '15m' },
    { long: '1d', short: '2h', factor: 3, severity: 'ticket', 'for': '1h' },
    { long: '3d', short: '6h', factor: 1, severity: 'ticket', 'for': '3h' },
  ],
  // The sums of long windows have few samples: increases of 5 minutes, or of an hour. Each range has that many.
  local steps = [
    { step: '5m', ranges: { '5m': 1, '30m': 6, '1h': 12, '2h': 24, '6h': 72 } },
    { step: '1h', ranges: { '1d': 24, '3d': 72 } },
  ],
  // Of a source without expectations: what its author expects is judged by the node.
  local unless_judged(expr) = expr + 'unless on (%s) topic_statistics_health_level\n' % source,
  // The share of what was missed, if it is too high.
  local missed(missed, met) = |||
    sum by (%(source)s) (increase(topic_statistics_%(missed)s[10m]))
    / (sum by (%(source)s) (increase(topic_statistics_%(missed)s[10m]))
      + sum by (%(source)s) (increase(topic_statistics_%(met)s[10m]))) > %(ratio)g
    and sum by (%(source)s) (increase(topic_statistics_%(missed)s[10m])) >= %(least)g
  ||| % { source: source, missed: missed, met: met, ratio: config.missedRatio, least: config.least },
  local bad(range) = 'topic_statistics:windows_bad:ratio' + range,
  local ok_share(range, step) =
    'sum_over_time(topic_statistics:windows_ok:increase%(step)s[%(range)s:%(step)s]) / sum_over_time(topic_statistics:windows_judged:increase%(step)s[%(range)s:%(step)s])'
    % { range: range, step: step },
  // The share of a range that was bad. What has no windows in it is not bad: a robot that has just started has not
  // burnt the hour before.
  local bad_share(range, step, samples) =
    '(1 - %s) * clamp_max(count_over_time(topic_statistics:windows_judged:increase%s[%s:%s]) / %d, 1)'
    % [ok_share(range, step), step, range, step, samples],

  prometheusRules+:: {
    groups: [
      {
        name: 'topic_statistics_rates',
        rules: [
          {
            record: 'topic_statistics:messages_received:rate5m',
            expr: 'sum by (%s) (rate(topic_statistics_messages_received_total[5m]))' % topic,
          },
          {
            // At least 55 minutes of them, so that a topic that has just begun is not taken for a steady one.
            record: 'topic_statistics:messages_received:min_rate1h',
            expr: |||
              min_over_time(topic_statistics:messages_received:rate5m[1h:5m])
              and on (%(topic)s) topic_statistics:messages_received:rate5m offset 55m
            ||| % { topic: topic },
          },
          {
            // Gaps in sequence numbers, or else what events report, which is of all subscriptions of the node together.
            record: 'topic_statistics:messages_lost:increase10m',
            expr: |||
              sum by (%(topic)s) (increase(topic_statistics_messages_lost_total[10m]))
              or sum by (%(topic)s) (increase(topic_statistics_messages_reported_lost_total[10m]))
            ||| % { topic: topic },
          },
          {
            record: 'topic_statistics:messages_lost:ratio10m',
            expr: |||
              topic_statistics:messages_lost:increase10m
              / (topic_statistics:messages_lost:increase10m
                + (sum by (%(topic)s) (increase(topic_statistics_messages_received_total[10m]))
                  or 0 * topic_statistics:messages_lost:increase10m))
            ||| % { topic: topic },
          },
        ],
      },
    ] + [
      {
        name: 'topic_statistics_objective_' + of.step,
        [if of.step == '1h' then 'interval']: '5m',
        rules: [
          {
            record: 'topic_statistics:windows_ok:increase' + of.step,
            expr: 'sum by (%s, judge) (increase(topic_statistics_windows_judged_total{level="ok"}[%s]))' % [source, of.step],
          },
          {
            record: 'topic_statistics:windows_judged:increase' + of.step,
            expr: 'sum by (%s, judge) (increase(topic_statistics_windows_judged_total[%s]))' % [source, of.step],
          },
        ] + [
          { record: bad(range), expr: bad_share(range, of.step, of.ranges[range]) }
          for range in std.objectFields(of.ranges)
        ],
      }
      for of in steps
    ] + [
      {
        name: 'topic_statistics_objective_28d',
        interval: '30m',
        rules: [{ record: 'topic_statistics:windows_ok:ratio28d', expr: ok_share('28d', '1h') }],
      },
    ],
  },

  prometheusAlerts+:: {
    groups: [
      {
        name: 'topic_statistics_exporters',
        rules: [
          alert(
            'TopicStatisticsSiteUnreachable',
            |||
              count by (%(site)s) (up{%(exporters)s, %(alwaysOn)s, %(ofSite)s} == 0) >= 3
              and count by (%(site)s) (up{%(exporters)s, %(alwaysOn)s, %(ofSite)s} == 0)
                > 0.5 * count by (%(site)s) (up{%(exporters)s, %(alwaysOn)s, %(ofSite)s})
            ||| % config,
            '5m',
            'page',
            '{{ $value }} robots of {{ $labels.site }} cannot be scraped',
            'More than half of the robots that are always on. Their network, or the way to it, is down.'
          ),
          alert(
            'TopicStatisticsExporterDown',
            |||
              up{%(exporters)s, %(alwaysOn)s} == 0
              unless on (%(site)s)
                (count by (%(site)s) (up{%(exporters)s, %(alwaysOn)s, %(ofSite)s} == 0) >= 3
                and count by (%(site)s) (up{%(exporters)s, %(alwaysOn)s, %(ofSite)s} == 0)
                  > 0.5 * count by (%(site)s) (up{%(exporters)s, %(alwaysOn)s, %(ofSite)s}))
            ||| % config,
            '5m',
            'page',
            of('the exporter cannot be scraped'),
            'The robot is off, its network is down, or the exporter has ended. Nothing is known of its topics.'
          ),
          alert(
            'TopicStatisticsExporterSilent',
            |||
              (
                group by (%(robot)s) (last_over_time(topic_statistics_exporter_build_info{%(alwaysOn)s}[1h]))
                unless on (%(robot)s) last_over_time(up[1h])
                or group by (%(robot)s) (last_over_time(ALERTS{alertname="TopicStatisticsExporterSilent", alertstate="firing"}[1d]))
              )
              unless on (%(robot)s) topic_statistics_exporter_build_info
              unless on (instance) %(gone)s{node=""}
            ||| % (config { gone: gone }),
            '5m',
            'page',
            of('the exporter pushes nothing'),
            'The robot is off, its network is down, or the exporter has ended. Nothing is known of its topics.'
          ),
          alert(
            'TopicStatisticsRobotMissing',
            |||
              (
                group by (%(robot)s) (present_over_time(topic_statistics_exporter_build_info[7d:30m] offset 3d))
                or group by (%(robot)s) (present_over_time(up{%(exporters)s}[7d:30m] offset 3d))
              )
              unless on (%(robot)s) group by (%(robot)s) (present_over_time(topic_statistics_exporter_build_info[3d:30m]))
              unless on (instance) %(gone)s{node=""}
            ||| % (config { gone: gone }),
            '1h',
            'ticket',
            of('nothing has been heard of it for 3 days'),
            'It was known in the last 10 days. It is switched off, its network is down, or its target was removed.'
          ),
          alert(
            'TopicStatisticsNothingScraped',
            |||
              absent_over_time(topic_statistics_exporter_build_info[3d:30m])
            |||,
            '1h',
            'ticket',
            'No exporter has been heard of for 3 days',
            'No target is configured, or all of them are away.'
          ),
          alert(
            'TopicStatisticsExporterRestarts',
            'changes(process_start_time_seconds{%(exporters)s}[1h]) >= %(starts)g' % config,
            '0m',
            'ticket',
            of('the exporter starts again and again'),
            '{{ $value }} times in an hour: it ends soon after its start, or the robot does.'
          ),
          alert(
            'TopicStatisticsPushDenied',
            |||
              sum by (%(robot)s) (increase(topic_statistics_exporter_push_attempts_failed_total{reason="denied"}[15m])) > 0
              unless on (%(robot)s) increase(topic_statistics_exporter_push_requests_accepted_total[10m]) > 0
            ||| % config,
            '10m',
            'ticket',
            of('the collector denies its requests'),
            'The status is 401, 403, 404 or 407. Requests wait, and are lost when the buffer is full: renew the token, or repair the URL.'
          ),
          alert(
            'TopicStatisticsPushLost',
            |||
              sum by (%(robot)s, reason) (increase(topic_statistics_exporter_push_requests_lost_total[1h])) > 0
            ||| % config,
            '0m',
            'ticket',
            of('figures were lost on the way to the collector'),
            '{{ $value | humanize }} requests in an hour, because of {{ $labels.reason }}.'
          ),
          alert(
            'TopicStatisticsSeriesLimit',
            |||
              sum by (%(robot)s, reason) (
                increase(topic_statistics_exporter_messages_refused_total{reason=~"series_limit|node_limit"}[10m])
              ) > 0
            ||| % config,
            '15m',
            'ticket',
            of('the exporter leaves sources out'),
            'There are as many time series as --max-series (series_limit) or --max-series-per-node (node_limit) allows.'
          ),
        ],
      },
      {
        name: 'topic_statistics_health',
        rules: [
          alert(
            'TopicStatisticsUnhealthy',
            // Once it fires, it does until a judge says OK or WARN: a node that crashes, or whose topic becomes silent,
            // is not healthy. If the robot is switched off, it ends after 15 minutes.
            |||
              max without (judge) (topic_statistics_health_level == 2)
              or
              2 * max without (alertname, alertstate, severity) (ALERTS{alertname="TopicStatisticsUnhealthy", alertstate="firing"})
                and on (%(robot)s) last_over_time(topic_statistics_exporter_build_info[15m])
                unless on (%(source)s) topic_statistics_health_level < 2
                unless on (instance, node) %(gone)s
            ||| % { robot: config.robot, source: source, gone: gone },
            '2m',
            'page',
            of('{{ $labels.topic }}{{ $labels.name }} of {{ $labels.node }} is an error'),
            'It violates what its author expects: error_unless of the node, or of the file of topic_monitor.'
          ),
          alert(
            'TopicStatisticsStale',
            'max without (judge) (topic_statistics_health_level == 3)',
            '5m',
            'ticket',
            of('{{ $labels.topic }}{{ $labels.name }} of {{ $labels.node }} is silent'),
            'No message for longer than its author expects. With "silence: error" it pages.'
          ),
          alert(
            'TopicStatisticsRateOff',
            |||
              max without (judge) (
                topic_statistics_judged_rate_hertz
                  < on (%(source)s, judge) group_left topic_statistics_expected_rate_hertz{bound="lower", level="warn"}
                or topic_statistics_judged_rate_hertz
                  > on (%(source)s, judge) group_left topic_statistics_expected_rate_hertz{bound="upper", level="warn"}
              )
            ||| % { source: source },
            '10m',
            'ticket',
            of('the rate of {{ $labels.topic }}{{ $labels.name }} in {{ $labels.node }} is not as expected'),
            'It is {{ $value | humanize }} Hz, which is outside the limits of warn_unless.'
          ),
          alert(
            'TopicStatisticsAgeHigh',
            |||
              topic_statistics_message_age_mean_seconds
                > on (%(topic)s) group_left min without (judge) (topic_statistics_expected_message_age_seconds{figure="mean", bound="upper", level="warn"})
              or topic_statistics_message_age_max_seconds
                > on (%(topic)s) group_left min without (judge) (topic_statistics_expected_message_age_seconds{figure="max", bound="upper", level="warn"})
              or topic_statistics_message_age_seconds{quantile="0.99"}
                > on (%(topic)s) group_left min without (judge) (topic_statistics_expected_message_age_seconds{figure="p99", bound="upper", level="warn"})
            ||| % { topic: topic },
            '10m',
            'ticket',
            of('messages on {{ $labels.topic }} are old in {{ $labels.node }}'),
            'Their age is {{ $value | humanizeDuration }}, which is above the limit of warn_unless.'
          ),
        ] + [
          alert(
            'TopicStatisticsErrorBudgetBurn',
            'max without (judge) (%s > %g and %s > %g)' % [
              bad(burn.long),
              burn.factor * (1 - config.objective),
              bad(burn.short),
              burn.factor * (1 - config.objective),
            ],
            burn['for'],
            burn.severity,
            of('{{ $labels.topic }}{{ $labels.name }} of {{ $labels.node }} is too often unhealthy'),
            '{{ $value | humanizePercentage }} of %s; %g %% in 28 days are allowed.'
            % [burn.long, 100 * (1 - config.objective)]
          ) + { labels+: { long: burn.long } }
          for burn in burns
        ],
      },
      {
        name: 'topic_statistics_topics',
        rules: [
          alert(
            'TopicStatisticsTopicStopped',
            // No expectation is known. Within 6 hours it had at least 20 messages in each 5 minutes of an hour, and its windows go on.
            |||
              (
                increase(topic_statistics_messages_received_total[15m]) == 0
                and on (%(topic)s) max_over_time(topic_statistics:messages_received:min_rate1h[6h:10m]) > 20 / 300
                and on (%(topic)s) increase(topic_statistics_windows_total[15m]) >= 3
                and on (%(topic)s) topic_statistics_windows_total
              )
              unless on (%(topic)s) topic_statistics_health_level
            ||| % { topic: topic },
            '5m',
            'ticket',
            of('{{ $labels.node }} receives nothing on {{ $labels.topic }} any more'),
            'Messages arrived all the time for an hour, and none in the last 15 minutes, but the node runs. If that is right, or wrong enough to page, set expectations.'
          ),
          alert(
            'TopicStatisticsMessagesLost',
            |||
              topic_statistics:messages_lost:ratio10m > %(lossRatio)g
              and topic_statistics:messages_lost:increase10m >= %(least)g
              unless on (%(topic)s) topic_statistics_expected_window_messages_lost
            ||| % { topic: topic, lossRatio: config.lossRatio, least: config.least },
            '0m',
            'ticket',
            of('{{ $labels.node }} loses messages on {{ $labels.topic }}'),
            '{{ $value | humanizePercentage }} in 10 minutes: lost on the network, or overwritten in a queue. Set a condition on lost for another limit.'
          ),
          alert(
            'TopicStatisticsNodesEnded',
            |||
              count by (%(robot)s) (
                group by (%(robot)s, node) (present_over_time(topic_statistics_windows_total[30m]))
                and on (%(robot)s, node) group by (%(robot)s, node) (topic_statistics_windows_total offset 2h)
                unless on (%(robot)s, node) group by (%(robot)s, node) (topic_statistics_windows_total)
              )
              and on (%(robot)s) topic_statistics_exporter_build_info
            ||| % config,
            '10m',
            'ticket',
            of('{{ $value }} nodes have ended'),
            'They had run for two hours, and publish no statistics any more. The exporter runs.'
          ),
          alert(
            'TopicStatisticsClockOffset',
            'abs(topic_statistics_clock_offset_seconds) > %g' % config.clockOffset,
            '15m',
            'ticket',
            of('the clock of {{ $labels.host }} is off'),
            'It is off by {{ $value | humanizeDuration }}, so ages of messages from other hosts are wrong.'
          ),
          alert(
            'TopicStatisticsClocksDiffer',
            |||
              sum by (%(robot)s, node) (increase(topic_statistics_message_age_negative_windows_total[10m])) > 0
            ||| % config,
            '15m',
            'ticket',
            of('messages in {{ $labels.node }} come from the future'),
            'Their stamps are later than their reception. The clocks of two hosts differ, or stamps are wrong.'
          ),
          alert(
            'TopicStatisticsDiagnosticError',
            // Not of a source that is judged, whose status has the name of the judge, and the topic or the whole source:
            // TopicStatisticsUnhealthy and TopicStatisticsStale tell of it.
            |||
              topic_statistics_diagnostic_level >= 2
              unless on (%(robot)s, name) label_join(%(topic)s, "name", ": ", "judge", "task")
              unless on (%(robot)s, name)
                label_join(label_join(%(topic)s, "task", ":", "node", "task"), "name", ": ", "judge", "task")
            ||| % {
              robot: config.robot,
              topic: 'label_join(topic_statistics_health_level, "task", "", "topic", "name")',
            },
            '10m',
            'ticket',
            of('{{ $labels.name }} reports an error'),
            'The level of the diagnostic status is {{ $value }}: 2 is an error, 3 is stale.'
          ),
        ],
      },
      {
        name: 'topic_statistics_waiting',
        rules: [
          alert(
            'TopicStatisticsCallWaits',
            unless_judged('topic_statistics_oldest_call_seconds > %(oldestCall)g\n' % config),
            '2m',
            'ticket',
            of('{{ $labels.node }} waits for a response of {{ $labels.topic }}'),
            'For {{ $value | humanizeDuration }}. The service is stuck, or it has died with the request.'
          ),
          alert(
            'TopicStatisticsCallsDropped',
            unless_judged(missed('dropped_calls_total', 'responses_total')),
            '0m',
            'ticket',
            of('calls of {{ $labels.node }} to {{ $labels.topic }} have no response'),
            '{{ $value | humanizePercentage }} in 10 minutes: the service does not respond in the time that the caller waits.'
          ),
          alert(
            'TopicStatisticsCallbackPanics',
            'sum by (%s) (increase(topic_statistics_callback_panics_total[15m])) > 0' % source,
            '0m',
            'ticket',
            of('callbacks of {{ $labels.topic }} in {{ $labels.node }} panic'),
            '{{ $value | humanize }} in 15 minutes. Their requests have no response. The log of the node has the reason.'
          ),
          alert(
            'TopicStatisticsTimerSkips',
            unless_judged(missed('skipped_periods_total', 'timer_period_seconds_count')),
            '0m',
            'ticket',
            of('{{ $labels.name }} of {{ $labels.node }} skips periods'),
            '{{ $value | humanizePercentage }} of its periods in 10 minutes: a callback of its thread takes longer than they do.'
          ),
          alert(
            'TopicStatisticsExecutorBusy',
            unless_judged('topic_statistics_busy_percent_max > %(busy)g\n' % config),
            '15m',
            'ticket',
            of('a thread of the executor of {{ $labels.node }} is always busy'),
            'It runs callbacks for {{ $value | humanize }} % of the time, so that others wait: the longest ones are in the log of the node.'
          ),
        ],
      },
    ],
  },

  grafanaDashboards+:: {
    'fleet.json': import 'fleet.json',
    'robot.json': import 'robot.json',
  },
};

mixin {
  // The text of a file that Prometheus loads.
  file(content):: '# SPDX-License-Identifier: Apache-2.0\n# Rendered from mixin.libsonnet: change that.\n'
                  + std.manifestYamlDoc(content, indent_array_in_object=true, quote_keys=false) + '\n',
  files:: { 'alerts.yml': mixin.prometheusAlerts, 'rules.yml': mixin.prometheusRules },
  rendered:: { [name]: $.file($.files[name]) for name in std.objectFields($.files) },
}
