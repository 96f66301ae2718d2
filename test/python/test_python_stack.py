"""Source lines that the recorder reads from a running interpreter, in every Python that is installed here.

Each test is a program of its own that asks the library, through ctypes, for the line it is at.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest

VERSIONS = ["3.10", "3.11", "3.12", "3.13"]

PRELUDE = """\
import ctypes, os, sys, threading
library = ctypes.CDLL(os.environ["LIBRARY"])
library.drydock_trace_current_line.restype = ctypes.c_uint32
_text = threading.local()
def line():
    if not hasattr(_text, "buffer"):
        _text.buffer = ctypes.create_string_buffer(512)
    library.drydock_trace_current_line(_text.buffer, ctypes.c_size_t(512))
    return _text.buffer.value.decode()
libc = ctypes.CDLL(None)
def start_native_thread():
    buffer, thread = ctypes.create_string_buffer(512), ctypes.c_ulong()
    function = ctypes.cast(library.drydock_trace_thread_line, ctypes.c_void_p)
    assert libc.pthread_create(ctypes.byref(thread), None, function, buffer) == 0
    return buffer, thread
"""


def library() -> str:
    if given := os.environ.get("DRYDOCK_TEST_LIBRARY"):
        return given
    from drydock._layout import library_dir

    return str(library_dir() / "libdrydock.so")


@cache
def interpreter(version: str) -> str | None:
    """The interpreter of a version, if there is one that starts."""
    names = [f"python{version}", *map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3")))]
    if sys.version.startswith(f"{version}."):
        names.insert(0, sys.executable)
    for name in names:
        if path := shutil.which(name):
            done = subprocess.run(
                [path, "-c", "import sys, ctypes; print(sys.version)"], capture_output=True, text=True
            )
            if done.returncode == 0 and done.stdout.startswith(f"{version}."):
                return path
    return None


@pytest.fixture(params=VERSIONS)
def python(request):
    found = interpreter(request.param)
    if found is None:
        pytest.skip(f"Python {request.param} is not installed")
    return found


@pytest.fixture
def run(python, tmp_path):
    """Runs a program whose library frames (`at_library`) lie in a site-packages folder; returns what it printed."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "prelude.py").write_text(PRELUDE)

    def run_program(text: str, **environment: str) -> list[str]:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        environment = os.environ | {"PYTHONPATH": str(packages), "LIBRARY": library()} | environment
        done = subprocess.run(
            [python, str(program)], capture_output=True, text=True, env=environment, timeout=120, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.replace(str(tmp_path) + "/", "").splitlines()

    run_program.packages = packages
    return run_program


@cache
def function_name(name: str, python_path: str) -> str:
    """Python 3.10 knows no qualified names."""
    is_old = "3.10" in subprocess.run([python_path, "-V"], capture_output=True, text=True).stdout
    return name.rsplit(".", 1)[-1] if is_old else name


def test_functions_methods_generators_and_comprehensions(run, python):
    lines = run(
        """\
        from prelude import line
        print(line())
        def outer():
            def inner():
                return line()
            return inner()
        print(outer())
        class Model:
            def forward(self):
                value = (
                    1,
                    line(),
                )
                return value[1]
        print(Model().forward())
        def generate():
            yield 1
            yield line()
        print(list(generate())[1])
        print([line() for _ in range(1)][0])
        print((lambda: line())())
        async def coroutine():
            return line()
        try:
            coroutine().send(None)
        except StopIteration as end:
            print(end.value)
        """
    )
    assert lines[0] == "program.py:2 (<module>)"
    assert lines[1] == f"program.py:5 ({function_name('outer.<locals>.inner', python)})"
    assert lines[2] == f"program.py:12 ({function_name('Model.forward', python)})"
    assert lines[3] == "program.py:18 (generate)"
    assert lines[4].startswith("program.py:20 (")
    assert lines[5].startswith("program.py:21 (")
    assert lines[6] == "program.py:23 (coroutine)"


def test_every_line_of_a_long_function_agrees_with_the_interpreter(run):
    lines = run(
        """\
        import sys
        from prelude import line
        body = []
        for i in range(600):
            body.append(f"    got.append((line(), sys._getframe().f_lineno{', i' * (i % 3)}))" + "\\n" * (i % 5))
            if i % 7 == 0:
                body.append("    for i in [1]:\\n        if i:\\n            got.append((\\n              line(),")
                body.append("              sys._getframe().f_lineno))")
        got = []
        names = {"line": line, "sys": sys, "got": got}
        exec(compile("def f(i=0):\\n" + "\\n".join(body), "long.py", "exec"), names)
        names["f"]()
        bad = [g for g in got if not (g[0] == f"long.py:{g[1]} (f)" or g[0] == f"long.py:{g[1] - 1} (f)")]
        exact = sum(g[0] == f"long.py:{g[1]} (f)" for g in got)
        print(len(got), len(bad), exact)
        """
    )
    count, bad, exact = map(int, lines[0].split())
    # A call and its argument two lines below are two lines: only those of the `(\n line(),` form may differ.
    assert (count, bad) == (686, 0)
    assert exact >= 600


def test_frames_of_packages_and_of_the_standard_library_are_passed_over(run):
    (run.packages / "package.py").write_text("def call(f):\n    return f()\n")
    lines = run(
        """\
        import functools
        from prelude import line
        import package
        def user():
            return package.call(line)
        print(user())
        print(functools.reduce(lambda a, b: package.call(line), [1, 2]))
        print(package.call(
            functools.partial(package.call, line)))
        exec(compile("print(package.call(line))", "<string>", "exec"))
        exec(compile("print(package.call(line))", "<eval_with_key>.1", "exec"))
        """
    )
    assert lines[0] == "program.py:5 (user)"
    assert lines[1].startswith("program.py:7 (")
    assert re.fullmatch(r"program.py:[89] \(<module>\)", lines[2])
    assert lines[3] == "<string>:1 (<module>)"
    assert lines[4] == "program.py:11 (<module>)"


def test_without_a_user_frame_the_innermost_one_is_named(run):
    (run.packages / "worker.py").write_text(
        "import threading\nfrom prelude import line\nresult = []\n"
        "def work():\n    result.append(line())\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    lines = run("import worker\nprint(worker.result[0])\n")
    assert lines == ["site-packages/prelude.py:8 (line)"]


def test_deep_stacks(run):
    lines = run(
        """\
        import sys
        from prelude import line
        sys.setrecursionlimit(20000)
        names = {"line": line}
        exec(compile("def down(n): return down(n - 1) if n else line()", "/x/site-packages/y.py", "exec"), names)
        print(names["down"](60))
        print(names["down"](5000))
        """
    )
    assert lines == ["program.py:6 (<module>)", "program.py:7 (<module>)"]


def test_names_outside_ascii(run):
    lines = run(
        """\
        from prelude import line
        for name in ("größe.py", "模型.py", "🙂.py"):
            names = {"line": line}
            exec(compile("def häufig(): return line()", name, "exec"), names)
            print(ascii(names["häufig"]()))
        """,
        PYTHONUTF8="1",
    )
    assert [eval(text) for text in lines] == [f"{name}:1 (häufig)" for name in ("größe.py", "模型.py", "🙂.py")]


def test_threads_have_lines_of_their_own(run):
    lines = run(
        """\
        import threading
        from prelude import line; line()  # checks the layout; threads that come meanwhile would get no line
        wrong = []
        def work(number):
            names = {"line": line}
            source = "\\n" * number + "def f(): return line()"
            exec(compile(source, f"thread{number}.py", "exec"), names)
            for _ in range(2000):
                got = names["f"]()
                if got != f"thread{number}.py:{number + 1} (f)":
                    wrong.append(got)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(wrong[:3])
        """
    )
    assert lines == ["[]"]


def test_code_objects_that_come_and_go(run):
    """Addresses are used again for other code: what was remembered about them must not be believed."""
    lines = run(
        """\
        from prelude import line
        wrong = []
        for i in range(3000):
            names = {"line": line}
            file = f"file{i % 7}.py" if i % 3 else f"/x/site-packages/file{i % 7}.py"
            exec(compile("\\n" * (i % 50) + "def f(): return line()", file, "exec"), names)
            got = names["f"]()
            want = f"file{i % 7}.py:{i % 50 + 1} (f)" if i % 3 else f"{__file__}:7 (<module>)"
            if not got.endswith(want):
                wrong.append((got, want))
        print(len(wrong), wrong[:3])
        """
    )
    assert lines == ["0 []"]


def test_threads_without_python_take_the_line_that_the_last_caller_is_at(run):
    lines = run(
        """\
        from prelude import *
        def forward():
            return line()
        def backward():
            buffer, thread = start_native_thread()
            libc.pthread_join(thread, None)
            return buffer.value.decode()
        print(forward())
        print(backward())
        """
    )
    # The thread may look before its starter waits for it.
    assert lines in [["program.py:3 (forward)", f"program.py:{n} (backward)"] for n in (5, 6)]


def test_native_thread_that_runs_python_code_now_and_then(run):
    """As the autograd engine's does in checkpoints and hooks: it lends no lines."""
    (run.packages / "package.py").write_text("from prelude import line\ndef hook():\n    return line()\n")
    lines = run(
        """\
        from prelude import *
        import package
        got = []
        def callback(_):
            got.append(line())          # the user's code
            got.append(package.hook())  # a user's frame calls it: the same function
            return None
        CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        names = {"got": got, "hook": package.hook}
        exec(compile("def f(_): got.append(hook())", "/x/site-packages/y.py", "exec"), names)
        def backward(function):
            thread = ctypes.c_ulong()
            assert libc.pthread_create(ctypes.byref(thread), None, function, None) == 0
            libc.pthread_join(thread, None)
        line()
        for function in (CALLBACK(callback), CALLBACK(names["f"])):
            backward(function)
        native_only, thread = start_native_thread()
        libc.pthread_join(thread, None)
        print(*got, native_only.value.decode(), sep="\\n")
        """
    )
    assert lines[0] == "program.py:5 (callback)"
    assert lines[1] == "program.py:6 (callback)"
    # Library code on a native thread: the line of the thread that waits for it.
    assert re.fullmatch(r"program.py:1[34] \(backward\)", lines[2]), lines[2]
    assert re.fullmatch(r"program.py:1[89] \(<module>\)", lines[3]), lines[3]


def test_threads_without_python_survive_the_end_of_the_last_caller(run):
    lines = run(
        """\
        from prelude import *
        import gc
        got = set()
        for _ in range(50):
            caller = threading.Thread(target=lambda: line())
            caller.start()
            caller.join()
            del caller
            gc.collect()
            buffer, thread = start_native_thread()
            libc.pthread_join(thread, None)
            got.add(buffer.value.decode())
        print(sorted(got))
        """
    )
    assert re.fullmatch(r"\['program.py:5 \(<lambda>\)'\]", lines[0])


def test_threads_without_python_while_the_last_caller_runs_on(run):
    """The caller's frames change while they are read: any of its lines may come out, but nothing else."""
    lines = run(
        """\
        from prelude import *
        def a(n): return b(n - 1) if n else 0
        def b(n): return [a(n - 1) for _ in range(1)][0] if n else 0
        stop, begun = False, threading.Event()
        def run_on():
            while not stop:
                line()
                begun.set()
                a(50)
                exec(compile("def f(): pass\\nf()", "program2.py", "exec"), {})
        caller = threading.Thread(target=run_on)
        caller.start()
        begun.wait()
        got = []
        for _ in range(200):
            buffer, thread = start_native_thread()
            libc.pthread_join(thread, None)
            got.append(buffer.value.decode())
        stop = True
        caller.join()
        print(len(got))
        for text in sorted(set(got)): print(text)
        """
    )
    assert lines[0] == "200"
    assert lines[1:]
    for text in lines[1:]:
        assert re.match(r"(program\.py:([2-9]|1[04]) \(|program2\.py:[0-2] \()", text), text


def test_forked_children(run):
    lines = run(
        """\
        import os
        from prelude import *
        print(line(), flush=True)
        child = os.fork()
        if child == 0:
            print(line(), flush=True)
            buffer, thread = start_native_thread()
            libc.pthread_join(thread, None)
            print(buffer.value.decode(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(line())
        """
    )
    assert lines[:2] == ["program.py:3 (<module>)", "program.py:6 (<module>)"]
    assert re.fullmatch(r"program.py:[78] \(<module>\)", lines[2])
    assert lines[3] == "program.py:12 (<module>)"


def test_interpreter_that_ends(run):
    """Lines asked for while the interpreter is taken down: no crash."""
    lines = run(
        """\
        import atexit
        from prelude import *
        class Last:
            def __del__(self):
                line()
        keep = Last()
        def busy():
            while True:
                line()
        threading.Thread(target=busy, daemon=True).start()
        atexit.register(lambda: print(line()))
        import time
        time.sleep(0.05)
        """
    )
    assert lines == ["program.py:11 (<lambda>)"]


def test_nothing_is_read_when_nothing_is_recorded(run):
    lines = run("from prelude import line\nprint(line())\n", DRYDOCK_RECORD="null")
    assert lines == ["unknown line"]


def test_trace_says_that_lines_are_read(run, tmp_path, python):
    run("from prelude import *\nline()\nlibrary.drydock_trace_step_ended()\n", DRYDOCK_RUN_DIR=str(tmp_path))
    (trace,) = (tmp_path / "traces").glob("*.ddtrace")
    header = trace.read_bytes()[:4096]
    assert header[:8] == b"DRYDOCKT"
    version = subprocess.run([python, "-V"], capture_output=True, text=True).stdout.split()[1]
    assert version.encode() + b"\0" in header
