"""Makes a table of pandas with the flows of a capture, and prints its number of rows, and the seconds without imports: python flows.py PROGRAM CAPTURE.

PROGRAM is `weir`, `nfstream`, `tshark`, `scapy`, `dpkt` or `pcaptoparquet`. Each has the ends, packets and bytes of each flow at least. Those
that know packets only are grouped by their 5-tuple, both directions together.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import time

KEY = ["proto", "a", "a_port", "b", "b_port"]


def grouped(packets):
    """Flows of a table of packets."""
    return packets.groupby(KEY, dropna=False).agg(first=("ts", "min"), last=("ts", "max"), packets=("len", "size"), bytes=("len", "sum")).reset_index()


def both_ways(packets):
    """The 5-tuple with the smaller end first, for tables of packets with the columns src, sport, dst and dport."""
    is_turned = (packets["src"] > packets["dst"]) | ((packets["src"] == packets["dst"]) & (packets["sport"] > packets["dport"]))
    packets["a"], packets["b"] = packets["src"].where(~is_turned, packets["dst"]), packets["dst"].where(~is_turned, packets["src"])
    packets["a_port"] = packets["sport"].where(~is_turned, packets["dport"])
    packets["b_port"] = packets["dport"].where(~is_turned, packets["sport"])
    return packets


def weir(path):
    import weir

    return weir.read(path).flows().to_pandas()


def weir_parts(path):
    """Where the time of `weir` goes."""
    begun = time.perf_counter()
    import pandas  # noqa: F401
    import pyarrow

    import weir

    imported = time.perf_counter()
    result = weir.read(path).flows()
    stream = result._stream("keep")
    batches = []
    reader = pyarrow.RecordBatchReader.from_stream(stream)
    for batch in reader:
        batches.append(batch)
    read = time.perf_counter()
    frame = pyarrow.Table.from_batches(batches, reader.schema).to_pandas()
    converted = time.perf_counter()
    print(f"import {imported - begun:.3f} read {read - imported:.3f} convert {converted - read:.3f} rows {len(frame)}")


def weir_rows(path):
    """Each flow as an object of Python."""
    import weir

    return [row for row in weir.read(path).flows()]


def nfstream(path):
    import nfstream

    return nfstream.NFStreamer(source=path).to_pandas()


def tshark(path):
    import pandas

    fields = ["frame.time_epoch", "frame.len", "ip.proto", "ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport"]
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "packets.csv")
        with open(table, "wb") as out:
            words = ["tshark", "-n", "-r", path, "-T", "fields", "-E", "separator=,", "-E", "occurrence=f"]
            subprocess.run(words + [word for field in fields for word in ("-e", field)], stdout=out, stderr=subprocess.DEVNULL, check=True)
        packets = pandas.read_csv(table, names=["ts", "len", "proto", "src", "dst", "tcp_s", "tcp_d", "udp_s", "udp_d"])
    packets["sport"], packets["dport"] = packets["tcp_s"].fillna(packets["udp_s"]), packets["tcp_d"].fillna(packets["udp_d"])
    return grouped(both_ways(packets.dropna(subset=["src", "dst"])))


class Flows:
    """Counts packets of flows in a dictionary, which is faster than a table of packets."""

    def __init__(self):
        self.flows = {}

    def add(self, ts, length, proto, src, sport, dst, dport):
        key = (proto, src, sport, dst, dport) if (src, sport) <= (dst, dport) else (proto, dst, dport, src, sport)
        flow = self.flows.get(key)
        if flow is None:
            self.flows[key] = [ts, ts, 1, length]
        else:
            flow[1] = ts
            flow[2] += 1
            flow[3] += length

    def table(self):
        import pandas

        return pandas.DataFrame([(*key, *flow) for key, flow in self.flows.items()], columns=[*KEY, "first", "last", "packets", "bytes"])


def scapy(path):
    from scapy.all import IP, TCP, UDP, PcapReader

    flows = Flows()
    with PcapReader(path) as packets:
        for packet in packets:
            if IP not in packet:
                continue
            ip = packet[IP]
            layer = packet.getlayer(TCP) or packet.getlayer(UDP)
            ports = (layer.sport, layer.dport) if layer is not None else (0, 0)
            flows.add(float(packet.time), packet.wirelen or len(packet), ip.proto, ip.src, ports[0], ip.dst, ports[1])
    return flows.table()


def dpkt(path):
    import dpkt

    flows = Flows()
    with open(path, "rb") as file:
        for ts, frame in dpkt.pcap.UniversalReader(file):
            ip = dpkt.ethernet.Ethernet(frame).data
            if not isinstance(ip, dpkt.ip.IP):
                continue
            layer = ip.data
            ports = (layer.sport, layer.dport) if isinstance(layer, (dpkt.tcp.TCP, dpkt.udp.UDP)) else (0, 0)
            flows.add(ts, len(frame), ip.p, ip.src, ports[0], ip.dst, ports[1])
    return flows.table()


PCAPTOPARQUET = {
    "transport_type": "proto",
    "ip_src": "src",
    "ip_dst": "dst",
    "transport_src_port": "sport",
    "transport_dst_port": "dport",
    "utc_date_time": "ts",
    "ip_len": "len",
}


def pcaptoparquet(path):
    import pandas
    from pcaptoparquet import E2EPcap

    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "packets.parquet")
        E2EPcap({}, "Client", path).export(outformat="parquet", output=table)
        packets = pandas.read_parquet(table, columns=list(PCAPTOPARQUET)).astype({"ip_src": str, "ip_dst": str, "transport_type": str})
    return grouped(both_ways(packets.rename(columns=PCAPTOPARQUET).dropna(subset=["src", "dst"])))


IMPORTS = {
    "weir": ["pandas", "pyarrow", "weir"],
    "weir_rows": ["weir"],
    "nfstream": ["nfstream"],
    "scapy": ["scapy.all", "pandas"],
    "dpkt": ["dpkt", "pandas"],
    "pcaptoparquet": ["pcaptoparquet", "pandas"],
    "tshark": ["pandas"],
}
"""What is imported before the clock starts."""


if __name__ == "__main__":
    for module in IMPORTS.get(sys.argv[1], []):
        importlib.import_module(module)
    begun = time.perf_counter()
    made = globals()[sys.argv[1]](sys.argv[2])
    if made is not None:
        print(len(made), time.perf_counter() - begun)
