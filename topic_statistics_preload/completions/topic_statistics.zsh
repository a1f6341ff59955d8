#compdef topic_statistics
_arguments -S \
  '(- *)--help[show the usage]' \
  '--expect[judge the subscriptions by this file]:file:_files -g "*.y(a|)ml"' \
  '--expect-namespace[the namespace of names without a slash at their start]:namespace:' \
  '1:verb:((run\:"run a command with topic statistics"))' \
  '*::command:_normal'
