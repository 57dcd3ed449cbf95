#compdef pysbx-runtime
# Completion of pysbx-runtime for zsh(1). Commands and options come from its own help, names of containers from `list`.

_pysbx_runtime() {
    local program=$words[1] word command warm root=() i
    case $words[CURRENT-1] in
        --root | --log) _files && return ;;
        --log-format) compadd -- text json && return ;;
        --log-level) compadd -- error warning info debug && return ;;
        --cgroup-manager) compadd -- systemd cgroupfs disabled && return ;;
    esac
    for ((i = 2; i < CURRENT; i++)); do
        word=$words[i]
        case $word in
            --root) root=(--root $words[++i]) ;;
            --root=*) root=($word) ;;
            --log | --log-format | --log-level | --cgroup-manager) ((++i)) ;;
            -*) ;;
            *)
                if [[ $command == warm ]]; then warm=$word; break; fi
                command=$word
                if [[ $command != warm ]]; then break; fi
                ;;
        esac
    done
    if [[ $PREFIX == -* ]]; then
        compadd -- ${(f)"$($program $command $warm --help 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z0-9-]*\).*/\2/p')"}
    elif [[ -z $command ]]; then
        compadd -- ${(f)"$($program --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')"}
    elif [[ $command == warm && -z $warm ]]; then
        compadd -- build save list show verify prune
    elif [[ $command == warm && $warm != save ]]; then
        compadd -- ${(f)"$($program warm list --quiet 2>/dev/null)"}
    else
        compadd -- ${(f)"$($program $root list --quiet 2>/dev/null)"}
        _files
    fi
}

_pysbx_runtime "$@"
