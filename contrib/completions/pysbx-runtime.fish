# Completion of pysbx-runtime for fish(1). Commands and options come from its own help, names of containers from `list`.

function __pysbx_runtime_words # the command and its arguments, without options
    set -l value no
    for word in (commandline -opc)[2..-1]
        if test $value = yes
            set value no
        else if contains -- $word --root --log --log-format --log-level --cgroup-manager
            set value yes
        else if not string match -q -- '-*' $word
            echo $word
        end
    end
end

function __pysbx_runtime_command
    set -l words (__pysbx_runtime_words)
    set -q words[1]; and echo $words[1]
end

function __pysbx_runtime_names
    set -l root
    set -l words (commandline -opc)
    for i in (seq (count $words))
        switch $words[$i]
            case --root
                set root --root $words[(math $i + 1)]
            case '--root=*'
                set root $words[$i]
        end
    end
    pysbx-runtime $root list --quiet 2>/dev/null
end

function __pysbx_runtime_commands
    pysbx-runtime --help | string replace -rf '^  ([a-z]+)  +(.*)' '$1\t$2'
end

function __pysbx_runtime_warm # the command after "warm"
    set -l words (__pysbx_runtime_words)
    test "$words[1]" = warm; and echo $words[2]
end

function __pysbx_runtime_options
    pysbx-runtime (__pysbx_runtime_command) (__pysbx_runtime_warm) --help 2>/dev/null |
        string replace -rf '^  (?:-., |    )(--[a-z0-9-]+)(?: [^ ]+)?  +(.*)' '$1\t$2'
end

complete -c pysbx-runtime -f -n 'not string length -q -- (__pysbx_runtime_command)' -a '(__pysbx_runtime_commands)'
complete -c pysbx-runtime -n 'string match -q -- "-*" (commandline -ct)' -a '(__pysbx_runtime_options)'
complete -c pysbx-runtime -n 'string match -qv warm -- (__pysbx_runtime_command)' -a '(__pysbx_runtime_names)'
complete -c pysbx-runtime -f -n 'test (__pysbx_runtime_command) = warm 2>/dev/null; and not string length -q -- (__pysbx_runtime_warm)' -a 'build save list show verify prune'
complete -c pysbx-runtime -n 'test (__pysbx_runtime_warm) = save 2>/dev/null' -a '(__pysbx_runtime_names)'
complete -c pysbx-runtime -f -n 'string length -q -- (__pysbx_runtime_warm); and test (__pysbx_runtime_warm) != save' -a '(pysbx-runtime warm list --quiet 2>/dev/null)'

# Options whose values are neither names nor commands.
set -l before -c pysbx-runtime -n 'not string length -q -- (__pysbx_runtime_command)'
complete $before -l root -d 'directory for the state of containers' -xa '(__fish_complete_directories)'
complete $before -l log -d 'write errors also to a file, syslog:NAME or journald:NAME' -r
complete $before -l log-format -d 'format of the log: text or json' -xa 'text json'
complete $before -l log-level -d 'least severe level: error, warning, info or debug' -xa 'error warning info debug'
complete $before -l cgroup-manager -d 'how to create cgroups: systemd, cgroupfs or disabled' -xa 'systemd cgroupfs disabled'
