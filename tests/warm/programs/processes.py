# call: @
# call: -m processes
"""Child processes of all kinds."""
import multiprocessing
import os
import subprocess
import sys


def square(n):
    return n * n, __name__, multiprocessing.current_process().name


def main():
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        print("child", os.getppid() != os.getpid())
        sys.stdout.flush()
        os._exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    print(subprocess.run([sys.executable, "-c", "import sys; print(sys.argv)", "x"], capture_output=True, text=True))
    print(subprocess.check_output("echo shell; echo $TEST_VAR", shell=True, env={"TEST_VAR": "y"}))
    print(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 4"], os.environ) > 0, os.wait()[1])
    for method in "fork", "spawn", "forkserver":
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            print(method, pool.map(square, range(3), 1)[2][:2])
        queue = context.Queue()
        process = context.Process(target=queue.put, args=("queued",))
        process.start()
        print(queue.get(), process.join(), process.exitcode)
    print(multiprocessing.current_process(), len(multiprocessing.current_process().authkey), multiprocessing.parent_process())


if __name__ == "__main__":
    main()
