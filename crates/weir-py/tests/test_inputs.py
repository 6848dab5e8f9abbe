"""Inputs, errors, the ends of runs, and callbacks."""

import contextlib
import functools
import gzip
import http.server
import io
import os
import signal
import subprocess
import struct
import sys
import tempfile
import threading
import time

import pytest
from conftest import TOP

import weir


def test_file_objects_globs_and_urls_are_read_as_paths(first_light, tmp_path):
    expected = list(weir.read(first_light).tls())
    with open(first_light, "rb") as file:
        result = weir.read(file).tls()
        assert list(result) == expected and list(result) == expected, "a file can be read again"
    assert list(weir.read(io.BytesIO(open(first_light, "rb").read())).tls()) == expected
    compressed = tmp_path / "a.pcap.gz"
    compressed.write_bytes(gzip.compress(open(first_light, "rb").read()))
    assert list(weir.read(tmp_path / "*.gz").tls()) == expected
    assert list(weir.read(f"file://{first_light}").tls()) == expected


def test_urls_are_opened_by_fsspec(first_light, tmp_path):
    import fsspec

    expected = list(weir.read(first_light).tls())
    with fsspec.open("memory://captures/a.pcap", "wb") as out:
        out.write(open(first_light, "rb").read())
    assert list(weir.read("memory://captures/a.pcap").tls()) == expected
    with served(os.path.dirname(first_light)) as address:
        result = weir.read(f"{address}/first-light.pcap").tls()
        assert list(result) == expected and list(result) == expected, "each reader opens the URL anew"
        with pytest.raises(weir.CaptureError, match="none"):
            list(weir.read(f"{address}/none.pcap").tls())


@contextlib.contextmanager
def served(folder):
    """The address of a server of HTTP on this host."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_objects_that_nobody_reads_leave_nothing(first_light):
    before = set(os.listdir(tempfile.gettempdir()))
    with open(first_light, "rb") as file:
        stream = weir.read(file).flows()._stream()
        stream.close()
        del stream
        rows = iter(weir.read(file).packets())
        next(rows)
        rows.close()
    deadline = time.monotonic() + 10
    left = lambda: {name for name in set(os.listdir(tempfile.gettempdir())) - before if name.startswith("weir-")}  # noqa: E731
    while (left() or input_threads()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left() and not input_threads()


def input_threads():
    return [thread for thread in threading.enumerate() if thread.name == "weir-input"]


def test_missing_files_are_errors_of_the_system():
    with pytest.raises(FileNotFoundError, match=r"none\.pcap"):
        weir.read("none.pcap")
    with pytest.raises(FileNotFoundError, match="no file matches"):
        weir.read("none-*.pcap")


def test_a_file_object_that_fails_is_an_error(first_light):
    class Broken(io.RawIOBase):
        def read(self, size=-1, /):
            raise OSError("the network is gone")

    with pytest.raises(weir.CaptureError, match="the network is gone"):
        list(weir.read(Broken()).flows())


def test_mistakes_have_a_place_and_a_hint(first_light):
    with pytest.raises(weir.FilterError) as caught:
        weir.read(first_light).flows("tcp.port == 443 and tcp.prot == 1")
    error = caught.value
    assert error.marks[0].text[slice(*error.span)] == "tcp.prot"
    assert "tcp.port" in error.hint and "^^^^" in str(error) and error.marks[0].code == "W0106"
    with pytest.raises(weir.WeirError, match="`flows` has no option `colums`: is `columns` meant"):
        weir.read(first_light).ask("flows", colums=["uid"])
    with pytest.raises(weir.WeirError, match="no option `worker` of the input: is `workers` meant"):
        weir.read(first_light, worker=2).flows()
    with pytest.raises(weir.WeirError, match="no column `sni`"):
        weir.read(first_light).tls(columns=["sni"])
    with pytest.raises(TypeError):
        weir.read(first_light).flows("tcp", "udp")


@pytest.fixture
def cut(first_light, tmp_path):
    path = tmp_path / "cut.pcap"
    path.write_bytes(open(first_light, "rb").read()[:-10])
    return path


def test_damaged_captures_give_their_rows_and_then_an_error(first_light, cut, tmp_path):
    rows = []
    with pytest.raises(weir.CaptureError, match=r"cut\.pcap") as caught:
        rows.extend(iter_into(rows, weir.read(cut).packets()))
    assert len(rows) == len(list(weir.read(first_light).packets())) - 1
    assert len(caught.value.errors) == 1
    for whole in ("to_arrow", "to_pandas", "to_polars"):
        with pytest.raises(weir.CaptureError, match=r"cut\.pcap") as caught:
            getattr(weir.read(cut).packets(), whole)()
        assert len(caught.value.rows) == len(rows), whole
    # The file of rows is complete nevertheless.
    import pyarrow.parquet

    out = tmp_path / "rows.parquet"
    with pytest.raises(weir.CaptureError):
        weir.read(cut).packets().to_parquet(out)
    assert pyarrow.parquet.read_table(out).num_rows == len(rows)


def test_damage_may_be_a_warning(cut):
    import polars
    import pyarrow

    result = weir.read(cut, damaged="warn").packets()
    readers = [pyarrow.table, polars.DataFrame, lambda result: result.to_arrow(), lambda result: list(result)]
    for reader in readers:
        with pytest.warns(weir.WeirWarning, match=r"cut\.pcap"):
            rows = reader(result)
        assert len(rows) == 2737
    with pytest.raises(pyarrow.ArrowException, match=r"cut\.pcap"):
        pyarrow.table(weir.read(cut).packets())
    with pytest.raises(ValueError, match="raise"):
        weir.read(cut, damaged="ignore")


def test_what_the_command_notes_is_a_warning(first_light, tmp_path):
    with pytest.warns(weir.WeirWarning, match="W0200") as heard:
        list(weir.read(first_light).http("dns"))
    assert heard[0].filename == __file__, "the warning names the line of its reader"
    strange = tmp_path / "strange.pcap"
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 147)
    strange.write_bytes(head + struct.pack("<IIII", 1, 0, 4, 4) + b"abcd")
    for reader in (list, lambda result: result.to_arrow(), lambda result: result.to_parquet(tmp_path / "rows.parquet")):
        with pytest.warns(weir.WeirWarning, match="strange.*does not read the link type"):
            reader(weir.read(strange).packets())
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(weir.WeirWarning):
            list(weir.read(strange).packets())


def iter_into(rows, result):
    for row in result:
        rows.append(row)
    return ()


def test_stacks_of_own_files_are_used(first_light):
    path = str(TOP / "examples" / "bfd.weir")
    assert any(field.name.startswith("bfd.") for field in weir.fields("bfd", stack=path))
    count = sum(1 for _ in weir.read(TOP / "examples" / "bfd.pcap", stack=path).packets("bfd"))
    assert count > 0
    with pytest.raises(weir.FilterError):
        weir.read(first_light).packets("bfd")


def test_a_run_ends_when_its_reader_goes(first_light):
    before = threads()
    for _ in range(5):
        rows = iter(weir.read(*[first_light] * 50).packets())
        next(rows)
        rows.close()
    deadline = time.monotonic() + 20
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threads() <= before


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_an_interrupt_ends_a_run_that_waits():
    code = "import weir, sys; print('ready', flush=True); list(weir.read('-').flows())"
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert run.stdout.readline() == b"ready\n"
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=20)
    assert b"KeyboardInterrupt" in errors and run.returncode == -signal.SIGINT


def test_others_run_while_rows_are_waited_for():
    read, write = os.pipe()
    counted = []
    ended = threading.Event()

    def count():
        while not ended.wait(0.01):
            counted.append(1)

    def feed():
        time.sleep(1)
        os.close(write)

    workers = [threading.Thread(target=count), threading.Thread(target=feed)]
    for worker in workers:
        worker.start()
    with os.fdopen(read, "rb") as file, pytest.raises(weir.CaptureError):
        list(weir.read(file).flows())
    ended.set()
    for worker in workers:
        worker.join()
    assert len(counted) > 20


def test_callbacks_receive_rows_in_one_pass(first_light):
    names, flows = [], []

    @weir.subscribe("tls.sni ~ 'shop'")
    def named(row):
        names.append(row.server_name)

    weir.run(weir.read(first_light), named, weir.subscribe("udp", to="flows")(flows.append))
    assert named.kind == "tls" and names == ["shop.example.net"]
    assert len(flows) == len(list(weir.read(first_light).flows("udp"))) > 0

    @weir.subscribe("udp")
    def failing(row):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        weir.run(weir.read(first_light), failing)


def test_texts_of_the_network_do_not_act_on_a_page(first_light):
    page = weir.read(first_light).http()._repr_html_()
    assert page.startswith("<table>") and "<th title=" in page and "20" in page
    from weir._rows import Columns
    from weir._show import table

    shown = table(Columns([("a", "text", 'x"y')]), [("<script>\x1b",)], False)
    assert "<script>" not in shown and "\x1b" not in shown and "x&quot;y" in shown


def test_progress_reaches_the_size_of_the_file(first_light):
    stream = weir.read(first_light).flows()._stream()
    while stream.rows() is not None:
        pass
    assert stream.progress == (os.path.getsize(first_light),) * 2
    assert len(list(weir.read(first_light, progress=True).flows())) > 0


def test_memory_stays_bounded_while_nobody_reads(first_light):
    code = f"""
import resource, time, weir
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
list(weir.read({first_light!r}).packets())
before = peak()
rows = iter(weir.read(*[{first_light!r}] * 3000).packets())
next(rows); time.sleep(2)
print(peak() - before)
rows.close()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=120)
    assert int(ran.stdout) < 200_000, "kilobytes"
