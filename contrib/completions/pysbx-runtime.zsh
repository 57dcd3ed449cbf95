#compdef pysbx-runtime
# Completion of pysbx-runtime for zsh(1). Commands and options come from its own help, names of containers from `list`.

_pysbx_runtime() {
    local program=$words[1] word command warm
    for word in ${words[2,CURRENT-1]}; do
        if [[ $word == -* ]]; then continue; fi
        if [[ $command == warm ]]; then warm=$word; break; fi
        command=$word
        if [[ $command != warm ]]; then break; fi
    done
    if [[ $PREFIX == -* ]]; then
        compadd -- ${(f)"$($program $command $warm --help 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p')"}
    elif [[ -z $command ]]; then
        compadd -- ${(f)"$($program --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')"}
    elif [[ $command == warm && -z $warm ]]; then
        compadd -- build save list show verify prune
    elif [[ $command == warm && $warm != save ]]; then
        compadd -- ${(f)"$($program warm list --quiet 2>/dev/null)"}
    else
        compadd -- ${(f)"$($program list --quiet 2>/dev/null)"}
        _files
    fi
}

_pysbx_runtime "$@"
