"""`pysbx kernel` by Jupyter's own tests of kernels."""

# once: an adapter says the same to its framework as root
# slow: IPython goes into a snapshot

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import ClassVar

import jupyter_kernel_test

PROGRAM = (sys.executable, "-c", "import sys; from pysbx.command import main; sys.exit(main())")


class TestKernel(jupyter_kernel_test.KernelTests):
    """A kernel that has been installed with the Python of the tests."""

    kernel_name = "sand"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('x', file=sys.stderr)"
    completion_samples: ClassVar = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples: ClassVar = ["1", "def f(): pass\n\n"]
    incomplete_code_samples: ClassVar = ["def f():", "for x in y:"]
    invalid_code_samples: ClassVar = ["1 +* 2 )"]
    code_page_something = "zip?"
    code_generate_error = "raise ValueError"
    code_execute_result: ClassVar = [{"code": "1+2+3", "result": "6"}]
    code_display_data: ClassVar = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))", "mime": "text/html"}
    ]
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "search")  # IPython's own kernel fails at "range" too

    @classmethod
    def setUpClass(cls) -> None:
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        before = os.environ.get("JUPYTER_DATA_DIR")
        os.environ["JUPYTER_DATA_DIR"] = directory.name
        try:
            install = (*PROGRAM, "kernel", "install", "--name", cls.kernel_name, "--virtualenv", sys.prefix)
            subprocess.run([*install, "--memory", "1024"], check=True)
            super().setUpClass()
        finally:
            os.environ.pop("JUPYTER_DATA_DIR")
            if before is not None:
                os.environ["JUPYTER_DATA_DIR"] = before
