"""Captures for the notebooks, made of random numbers with a fixed seed: addresses and names are those reserved for documentation.

`day_with_a_beacon` has a day of web traffic of an office, in which one host reports to a server every few minutes.
`downloads_with_loss` has downloads over a line that loses many packets for some time.
"""

from __future__ import annotations

import ipaddress
import pathlib
import random
import struct
from collections.abc import Iterator

DAY_S = 24 * 3600
BEGIN_S = 1_790_000_000 // DAY_S * DAY_S
"""Midnight of a day in 2026, UTC."""
SEGMENT_BYTES = 1448

Frame = tuple[float, bytes]
"""Seconds since 1970, and the bytes on Ethernet."""


def day_with_a_beacon(path: str, hosts: int = 12, seed: int = 1) -> str:
    """Hosts use web sites at random times of the working day, and keep two services alive; 192.0.2.17 also reports to 203.0.113.66 about every
    300 seconds, day and night. Returns the path."""
    random_ = random.Random(seed)
    sites = [f"198.51.100.{number}" for number in range(10, 40)]
    frames: list[Frame] = []
    for host in range(11, 11 + hosts):
        client = f"192.0.2.{host}"
        favourites = random_.sample(sites, 8)
        for _ in range(random_.randint(60, 120)):
            # People come in bursts: a page is several connections.
            start = BEGIN_S + random_.gauss(13, 2.2) * 3600
            site = random_.choice(favourites)
            for _ in range(random_.randint(1, 3)):
                at = start + random_.expovariate(1 / 20)
                size = int(random_.lognormvariate(8.5, 1.2))
                frames += connection(at, client, site, 443, random_.randint(300, 900), size, random_)
        # A programme that looks for mail: regular, too, but its answers differ, and it sleeps at night.
        at = BEGIN_S + 8 * 3600 + random_.random() * 600
        while at < BEGIN_S + 18 * 3600:
            frames += connection(at, client, "198.51.100.5", 993, 220, int(random_.lognormvariate(7, 1.0)), random_)
            at += 600 * random_.uniform(0.7, 1.6)
    at = BEGIN_S + 17.0
    while at < BEGIN_S + DAY_S:
        frames += connection(at, "192.0.2.17", "203.0.113.66", 443, 412, 156, random_)
        at += 300 * random_.uniform(0.92, 1.08)
    return write(path, frames)


def downloads_with_loss(path: str, seed: int = 2) -> str:
    """Six downloads, one after the other, from 198.51.100.20 over a line with a round trip of 30 ms, as the server sees them. Between the 20th
    and the 40th second the line loses every 25th packet. Returns the path."""
    random_ = random.Random(seed)
    frames: list[Frame] = []
    for number in range(6):
        start = BEGIN_S + 10 * number
        frames += download(start, f"192.0.2.{31 + number}", "198.51.100.20", 600_000, random_)
    return write(path, frames)


def connection(
    at: float, client: str, server: str, port: int, sent: int, received: int, random_: random.Random
) -> Iterator[Frame]:
    """A connection with a request and an answer."""
    ends = Ends(client, random_.randint(32768, 60999), server, port, random_)
    delay = random_.uniform(0.01, 0.04)
    yield from ends.open(at, delay)
    at += 2 * delay
    yield at, ends.frame(True, sent)
    at += delay
    while received > 0:
        yield at, ends.frame(False, min(received, SEGMENT_BYTES))
        received -= SEGMENT_BYTES
        at += 0.0002
    yield at + delay, ends.frame(True, 0)
    yield from ends.close(at + delay, delay)


def download(at: float, client: str, server: str, size: int, random_: random.Random) -> Iterator[Frame]:
    """A download whose lost segments the server sends again, a round trip and a bit later."""
    round_trip = 0.03
    ends = Ends(client, random_.randint(32768, 60999), server, 80, random_)
    yield from ends.open(at, round_trip)
    yield at + 2 * round_trip, ends.frame(True, 120, b"GET /file HTTP/1.1\r\nHost: download.example\r\n\r\n")
    at += 3 * round_trip
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
    frames: list[Frame] = [(at, ends.frame(False, len(head), head))]
    left = size
    while left > 0:
        at += 0.022
        frame = ends.frame(False, min(left, SEGMENT_BYTES))
        frames.append((at, frame))
        left -= SEGMENT_BYTES
        is_lost = 20 <= at - BEGIN_S < 40 and random_.random() < 0.04
        if is_lost:
            again = at + round_trip * random_.uniform(1.1, 2.5)
            frames.append((again, frame))
            frames += [(at + round_trip + 0.003 * number, ends.frame(True, 0)) for number in range(3)]
        elif random_.random() < 0.5:
            frames.append((at + round_trip, ends.frame(True, 0)))
    yield from frames
    yield from ends.close(max(time for time, _ in frames) + round_trip, round_trip)


class Ends:
    """The ends of a connection, and their sequence numbers."""

    def __init__(self, client: str, client_port: int, server: str, port: int, random_: random.Random) -> None:
        self.addresses = [ipaddress.ip_address(client).packed, ipaddress.ip_address(server).packed]
        self.ports = [client_port, port]
        self.next = [random_.randrange(1 << 31), random_.randrange(1 << 31)]

    def frame(self, of_client: bool, length: int, data: bytes = b"", flags: int = 0x10) -> bytes:
        """A segment with this number of bytes, which begin with `data`."""
        end = 0 if of_client else 1
        payload = data + bytes(length - len(data)) if length >= len(data) else data
        flags |= 0x08 if payload else 0
        acknowledged = 0 if flags == 0x02 else self.next[1 - end]
        tcp = struct.pack("!HHIIBBHHH", self.ports[end], self.ports[1 - end], self.next[end], acknowledged, 0x50, flags, 65000, 0, 0)
        source, target = self.addresses[end], self.addresses[1 - end]
        pseudo = source + target + struct.pack("!BBH", 0, 6, len(tcp) + len(payload))
        tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp + payload)) + tcp[18:]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp) + len(payload), 0, 0x4000, 64, 6, 0) + source + target
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
        self.next[end] = (self.next[end] + len(payload) + (1 if flags & 0x03 else 0)) % (1 << 32)
        return MACS[1 - end] + MACS[end] + b"\x08\x00" + ip + tcp + payload

    def open(self, at: float, delay: float) -> Iterator[Frame]:
        """The handshake."""
        yield at, self.frame(True, 0, flags=0x02)
        yield at + delay, self.frame(False, 0, flags=0x12)
        yield at + delay + 0.0001, self.frame(True, 0)

    def close(self, at: float, delay: float) -> Iterator[Frame]:
        """Both ends close."""
        yield at + 0.001, self.frame(True, 0, flags=0x11)
        yield at + delay, self.frame(False, 0, flags=0x11)
        yield at + delay + 0.0001, self.frame(True, 0)


MACS = [bytes.fromhex("020000000001"), bytes.fromhex("020000000002")]


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def write(path: str, frames: list[Frame]) -> str:
    """Writes a pcap file with times in nanoseconds; returns its path."""
    frames.sort(key=lambda frame: frame[0])
    with pathlib.Path(path).open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1))
        for at, frame in frames:
            seconds, ns = divmod(round(at * 1e9), 1_000_000_000)
            out.write(struct.pack("<IIII", seconds, ns, len(frame), len(frame)) + frame)
    return path
