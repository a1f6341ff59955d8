# bash completion for topic_statistics. After `--`, the words are those of the command (bash-completion).
_topic_statistics() {
  local place word=${COMP_WORDS[COMP_CWORD]}
  for ((place = 1; place < COMP_CWORD; place++)); do
    if [ "${COMP_WORDS[place]}" = -- ]; then
      _command_offset $((place + 1))
      return
    fi
  done
  case $COMP_CWORD:${COMP_WORDS[COMP_CWORD - 1]} in
    1:*) mapfile -t COMPREPLY < <(compgen -W 'run --help' -- "$word") ;;
    *:--expect) ;; # names of files, by `-o default`
    *) mapfile -t COMPREPLY < <(compgen -W '--expect --expect-namespace --' -- "$word") ;;
  esac
}
complete -o default -F _topic_statistics topic_statistics
