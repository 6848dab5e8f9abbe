"""A QUIC server for the recording, by aioquic: speaks HTTP/3's name, answers a line with a line.

usage: quic_server.py ADDRESS PORT CERTIFICATE KEY VERSIONS [retry]     VERSIONS: 1, 2 or 2,1
"""

import asyncio
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, StreamDataReceived
from aioquic.quic.packet import QuicProtocolVersion

VERSIONS = {"1": QuicProtocolVersion.VERSION_1, "2": QuicProtocolVersion.VERSION_2}


class Answering(QuicConnectionProtocol):
    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            told = {"server_port": PORT, "alpn": event.alpn_protocol, "version": self._quic._version}
            print(json.dumps(told), flush=True)
        if isinstance(event, StreamDataReceived) and event.end_stream:
            self._quic.send_stream_data(event.stream_id, b"a line of water\n", end_stream=True)
            self.transmit()


async def main():
    configuration = QuicConfiguration(
        is_client=False,
        alpn_protocols=["h3"],
        supported_versions=[VERSIONS[v] for v in sys.argv[5].split(",")],
    )
    configuration.load_cert_chain(sys.argv[3], sys.argv[4])
    retry = sys.argv[6:] == ["retry"]
    await serve(
        sys.argv[1], PORT, configuration=configuration, create_protocol=Answering, retry=retry
    )
    await asyncio.Future()


PORT = int(sys.argv[2])
asyncio.run(main())
