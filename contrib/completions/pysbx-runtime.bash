# Completion of pysbx-runtime for bash(1). Commands and options come from its own help, names of containers from `list`,
# so that this file does not repeat them.

_pysbx_runtime_options() {
    "$@" --help 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z0-9-]*\).*/\2/p'
}

_pysbx_runtime_commands() {
    "$1" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

_pysbx_runtime() {
    local program=$1 current=$2 previous=$3 word command='' root=() warm=()
    local i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
            --root | --log | --log-format | --log-level | --cgroup-manager)
                # bash splits "--root=DIR" into three words
                [[ ${COMP_WORDS[i + 1]} != = ]] || ((++i))
                ((++i))
                [[ $word != --root ]] || root=(--root "${COMP_WORDS[i]}")
                ;;
            -*) ;;
            *)
                command=$word
                break
                ;;
        esac
    done
    if [[ $command == warm ]]; then
        for ((++i; i < COMP_CWORD; i++)); do
            [[ ${COMP_WORDS[i]} == -* ]] || { warm=("${COMP_WORDS[i]}") && break; }
        done
    fi
    case $previous in
        -b | --bundle | --root | --cwd | --image-path | --work-path) mapfile -t COMPREPLY < <(compgen -d -- "$current") && return ;;
        -p | --process | -r | --resources | --config | --pid-file | --console-socket | --pidfd-socket | --status-file | --snapshot | --snapshot-base | --log)
            mapfile -t COMPREPLY < <(compgen -f -- "$current") && return
            ;;
        --log-format) mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$current") && return ;;
        --log-level) mapfile -t COMPREPLY < <(compgen -W 'error warning info debug' -- "$current") && return ;;
        --cgroup-manager) mapfile -t COMPREPLY < <(compgen -W 'systemd cgroupfs disabled' -- "$current") && return ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_pysbx_runtime_options "$program" ${command:+"$command"} "${warm[@]}")" -- "$current")
    elif [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_pysbx_runtime_commands "$program")" -- "$current")
    elif [[ $command == warm && ${#warm[@]} == 0 ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'build save list show verify prune' -- "$current")
    elif [[ $command == warm && ${warm[*]} != save ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$program" warm list --quiet 2>/dev/null)" -- "$current")
    elif [[ $command == kill && $previous != kill && $previous != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -A signal -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -W "$("$program" "${root[@]}" list --quiet 2>/dev/null)" -- "$current")
    fi
}

complete -o default -F _pysbx_runtime pysbx-runtime
