# The CPU time of what a script runs, for scripts that print where the time of a run goes.

# Set cpu_s to the CPU time of the children of this shell that have ended, in seconds, with all processes that they waited
# for. FILE is written: measure_cpu FILE.
measure_cpu() {
    local time minutes seconds
    cpu_s=0
    times >"$1" # not in a subshell, which has no such children
    for time in $(tail -n 1 "$1"); do
        IFS=m read -r minutes seconds <<<"${time%%.*}"
        cpu_s=$((cpu_s + minutes * 60 + seconds))
    done
}
