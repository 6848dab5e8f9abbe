# Writes constructs.pcap beside itself, the capture of docs/language-examples.md: python3 examples/constructs.py
import struct, os
frames = []
MACS = {1: bytes.fromhex('020000000001'), 2: bytes.fromhex('020000000002')}
def csum(b):
    s = sum(struct.unpack('!%dH' % (len(b) // 2), b))
    while s >> 16: s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff
def frame(t, source, target, ethertype, body):
    frames.append((t, MACS[target] + MACS[source] + struct.pack('!H', ethertype) + body))
def udp(t, source, target, sport, dport, body):
    u = struct.pack('!HHHH', sport, dport, 8 + len(body), 0) + body
    h = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(u), len(frames), 0, 64, 17, 0, bytes([192, 0, 2, source]), bytes([192, 0, 2, target]))
    frame(t, source, target, 0x0800, h[:10] + struct.pack('!H', csum(h)) + h[12:] + u)

# Parcels: a note in three fragments, the second sent twice, with other bytes, before the last comes.
def parcel(t, number, offset, last, data):
    udp(t, 1, 2, 7001, 7001, struct.pack('!HHBB', number, offset, last << 7, len(data)) + data)
parcel(1.0, 5, 0, 0, b'\x01\x0ahel'); parcel(1.1, 5, 5, 0, b'lo WE'); parcel(1.2, 5, 5, 0, b'lo we'); parcel(1.3, 5, 10, 1, b'ir')
# A note in one, whose length is more than there is.
parcel(1.4, 6, 0, 1, b'\x02\x20short')

# A pipe: what is early, comes twice, lies beyond the window; an end that overtakes what stands before it.
def pipe(t, source, seq, ack, data=b'', syn=0, fin=0, window=20, port=6000):
    target, ports = 3 - source, (port, 7002) if source == 1 else (7002, port)
    udp(t, source, target, *ports, struct.pack('!BBHH', syn << 7 | fin << 6, window, seq, ack) + data)
pipe(2.0, 1, 100, 0, syn=1); pipe(2.1, 2, 900, 101, syn=1)
pipe(2.2, 1, 101, 901, b'one '); pipe(2.3, 1, 109, 901, b'three '); pipe(2.4, 1, 101, 901, b'one ')
pipe(2.5, 1, 160, 901, b'far'); pipe(2.6, 1, 115, 901, fin=1); pipe(2.7, 1, 105, 901, b'two '); pipe(2.8, 2, 901, 116)
# Another one, silent for five seconds once it is open.
pipe(3.0, 1, 500, 0, syn=1, port=6001); pipe(3.1, 2, 700, 501, syn=1, port=6001); pipe(3.2, 1, 501, 701, b'a', port=6001)
pipe(8.2, 1, 502, 701, b'b', port=6001)

# Shelves: on a link of their own, in boxes inside one another.
def box(number, more): return struct.pack('!B', more << 7 | number)
def shelf(kind, items, rest=b''):
    head = {1: struct.pack('!H', 250), 2: struct.pack('!I', 70000)}.get(kind, b'')
    body = head + items + rest
    return struct.pack('!BBB', kind, 3 + len(body), 3 + len(head) + len(items)) + body
RED, SIZE, END = b'\x01\x01\x07', b'\x09\x03xyz', b'\x00'
frame(9.0, 1, 2, 0x88b5, box(3, 0) + shelf(1, RED + SIZE + END, b'!!'))
frame(9.1, 2, 1, 0x88b5, box(3, 1) + box(4, 0) + shelf(2, SIZE + RED))
frame(9.2, 1, 2, 0x88b5, box(1, 1) + box(2, 1) + box(3, 1) + box(4, 0) + shelf(3, b''))

# Meters: messages over TCP, two in one segment, one in two, and one whose checksum is wrong.
def tcp(t, source, seq, ack, flags, body=b''):
    ports = (41000, 4444) if source == 1 else (4444, 41000)
    pseudo = bytes([192, 0, 2, source, 192, 0, 2, 3 - source]) + struct.pack('!BBH', 0, 6, 20 + len(body))
    head = struct.pack('!HHIIBBHHH', *ports, seq, ack, 0x50, flags, 4000, 0, 0)
    sum = csum((pseudo + head + body).ljust((len(pseudo) + len(head) + len(body) + 1) // 2 * 2, b'\0'))
    segment = head[:16] + struct.pack('!H', sum) + head[18:] + body
    h = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(segment), len(frames), 0, 64, 6, 0, bytes([192, 0, 2, source]), bytes([192, 0, 2, 3 - source]))
    frame(t, source, 3 - source, 0x0800, h[:10] + struct.pack('!H', csum(h)) + h[12:] + segment)
def meter(kind, value, text=b''):
    m = struct.pack('!HBBHI', 10 + len(text), kind << 4 | 5, 0, 0, value) + text
    return m[:4] + struct.pack('!H', csum(m)) + m[6:]
seq, ack = 1000, 5000
tcp(10.0, 1, seq, 0, 2); tcp(10.1, 2, ack, seq + 1, 0x12); seq += 1; ack += 1; tcp(10.2, 1, seq, ack, 0x10)
wrong = bytearray(meter(1, 9)); wrong[9] ^= 1
for t, data in (10.3, meter(1, 230) + meter(2, 16, b'peak')), (10.4, meter(3, 7)[:5]), (10.5, meter(3, 7)[5:]), (10.6, bytes(wrong)):
    tcp(t, 1, seq, ack, 0x18, data); seq += len(data)

# Letters on slips: one on two slips in a packet; one of another topic; one on three slips, the second of which comes last.
def slips(t, *some):
    udp(t, 1, 2, 7003, 7003, b''.join(struct.pack('!HBBB', n, first << 7 | last << 6, topic, len(text)) + text for n, first, last, topic, text in some))
slips(11.0, (65534, 1, 0, 1, b'\x07dear'), (65535, 0, 1, 1, b' me'))
slips(11.1, (0, 1, 1, 9, b'?'), (1, 1, 0, 1, b'\x0bhow '))
slips(11.2, (4, 1, 1, 1, b'\x03bye'), (3, 0, 1, 1, b'you'))
slips(11.3, (2, 0, 0, 1, b'are '))

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'constructs.pcap'), 'wb') as out:
    out.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
    for t, data in sorted(frames, key=lambda one: one[0]):
        data = data.ljust(60, b'\0')
        ticks = round((1793500000 + t) * 1000000)
        out.write(struct.pack('<IIII', ticks // 1000000, ticks % 1000000, len(data), len(data)) + data)
