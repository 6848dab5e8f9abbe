"""Live traffic, on a virtual cable in network namespaces of the test's own."""

import os
import shutil
import subprocess
import sys
import time

import pytest

SENDER, RECEIVER = f"weir-py-a{os.getpid()}", f"weir-py-b{os.getpid()}"


@pytest.fixture
def cable():
    """Two namespaces with a cable between them: 192.0.2.1 on `east` and 192.0.2.2 on `west`."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, and the program `ip` (iproute2)")
    script = f"""
        ip netns add {SENDER} && ip netns add {RECEIVER}
        ip -n {SENDER} link add east type veth peer name west netns {RECEIVER}
        ip -n {SENDER} addr add 192.0.2.1/24 dev east && ip -n {RECEIVER} addr add 192.0.2.2/24 dev west
        ip -n {SENDER} link set east up && ip -n {RECEIVER} link set west up
    """
    made = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=False)
    try:
        if made.returncode != 0:
            pytest.skip(f"no network namespaces: {made.stderr.strip()}")
        yield
    finally:
        for name in (SENDER, RECEIVER):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


LISTENER = """
import logging, sys, weir
logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
rows = iter(weir.open("west").packets("udp.port == 47808"))
print("ready", flush=True)
for number in range(3):
    print(next(rows).info, flush=True)
rows.close()
batches = weir.open("west").aggregate("count() every 1s", "udp.port == 47808").batches()
print(next(batches).num_rows, flush=True)
batches.close()
print("closed", flush=True)
for row in weir.open("west").packets("udp.port == 9"):
    print(row)
"""
TALKER = """
import socket, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    while True:
        out.sendto(b"x", ("192.0.2.2", 47808))
        time.sleep(0.05)
"""


def test_live_rows_come_while_packets_do_and_an_interrupt_ends_the_run(cable, tmp_path):
    talker = subprocess.Popen(["ip", "netns", "exec", SENDER, sys.executable, "-c", TALKER])
    said = tmp_path / "stderr"
    listener = subprocess.Popen(
        ["ip", "netns", "exec", RECEIVER, sys.executable, "-c", LISTENER], stdout=subprocess.PIPE, stderr=said.open("w"), text=True
    )
    try:
        lines = [listener.stdout.readline().strip() for _ in range(6)]
        assert lines[0] == "ready" and all("47808" in line for line in lines[1:4]), lines
        assert int(lines[4]) >= 1 and lines[5] == "closed"
        # The kernel takes up to seconds to accept a filter; then a message says so.
        deadline = time.monotonic() + 30
        while "weir: west: " not in said.read_text():
            assert time.monotonic() < deadline, "how packets are captured is information for loggers"
            time.sleep(0.05)
        listener.send_signal(2)
        listener.wait(timeout=20)
        assert "KeyboardInterrupt" in said.read_text() and listener.returncode == -2
    finally:
        for process in (talker, listener):
            process.kill()
            process.wait()
