# Completion of pysbx-runtime for fish(1). Commands and options come from its own help, names of containers from `list`.

function __pysbx_runtime_command
    for word in (commandline -opc)[2..-1]
        if not string match -q -- '-*' $word
            echo $word
            return
        end
    end
end

function __pysbx_runtime_commands
    pysbx-runtime --help | string replace -rf '^  ([a-z]+)  +(.*)' '$1\t$2'
end

function __pysbx_runtime_warm # the command behind "warm"
    set -l words (string match -v -- '-*' (commandline -opc)[2..-1])
    test "$words[1]" = warm; and echo $words[2]
end

function __pysbx_runtime_options
    pysbx-runtime (__pysbx_runtime_command) (__pysbx_runtime_warm) --help 2>/dev/null |
        string replace -rf '^  (?:-., |    )(--[a-z-]+)(?: [^ ]+)?  +(.*)' '$1\t$2'
end

complete -c pysbx-runtime -f -n 'not string length -q -- (__pysbx_runtime_command)' -a '(__pysbx_runtime_commands)'
complete -c pysbx-runtime -n 'string match -q -- "-*" (commandline -ct)' -a '(__pysbx_runtime_options)'
complete -c pysbx-runtime -n 'string match -qv warm -- (__pysbx_runtime_command)' -a '(pysbx-runtime list --quiet 2>/dev/null)'
complete -c pysbx-runtime -f -n 'test (__pysbx_runtime_command) = warm 2>/dev/null; and not string length -q -- (__pysbx_runtime_warm)' -a 'build save list show verify prune'
complete -c pysbx-runtime -n 'test (__pysbx_runtime_warm) = save 2>/dev/null' -a '(pysbx-runtime list --quiet 2>/dev/null)'
complete -c pysbx-runtime -f -n 'string length -q -- (__pysbx_runtime_warm); and test (__pysbx_runtime_warm) != save' -a '(pysbx-runtime warm list --quiet 2>/dev/null)'
