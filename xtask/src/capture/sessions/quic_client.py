"""A QUIC client for the recording, by aioquic: one connection, a line each way; prints what it asked for.

usage: quic_client.py ADDRESS PORT NAME AUTHORITY VERSIONS     VERSIONS: the first is the one it begins with
"""

import asyncio
import json
import sys

from aioquic.asyncio import connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion

VERSIONS = {"1": QuicProtocolVersion.VERSION_1, "2": QuicProtocolVersion.VERSION_2}


async def main():
    address, port, name, authority, versions = sys.argv[1:]
    numbers = [VERSIONS[v] for v in versions.split(",")]
    configuration = QuicConfiguration(
        alpn_protocols=["h3"],
        server_name=name,
        original_version=numbers[0],
        supported_versions=numbers,
    )
    configuration.load_verify_locations(authority)
    async with connect(address, int(port), configuration=configuration) as connection:
        reader, writer = await connection.create_stream()
        writer.write(b"a line\n")
        writer.write_eof()
        answer = await reader.read()
        told = {
            "server": address,
            "server_port": int(port),
            "server_name": name,
            "client_alpn": "h3",
            "began_with": int(versions.split(",")[0]),
            "answered": answer == b"a line of water\n",
        }
        print(json.dumps(told))


asyncio.run(main())
