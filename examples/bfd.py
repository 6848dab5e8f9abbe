# Writes bfd.pcap beside itself, the capture of docs/fifteen-minutes.md: python3 examples/bfd.py
import struct, ipaddress, heapq
def csum(b):
    if len(b)%2: b+=b'\0'
    s=sum(struct.unpack('!%dH'%(len(b)//2),b))
    while s>>16: s=(s&0xffff)+(s>>16)
    return ~s&0xffff
frames=[]
class End:
    def __init__(s,ip,mac,port,disc): s.ip=ipaddress.ip_address(ip); s.mac=bytes.fromhex(mac.replace(':','')); s.port=port; s.disc=disc; s.id=disc*16
def send(t,a,b,sta,diag=0,your=None,p=0,f=0,tx=1000000,rx=300000,echo=0,auth=None,mult=3):
    your = b.disc if your is None else your
    fl=(p<<5)|(f<<4)|(4 if auth else 0)
    au=b'' if not auth else bytes([1,3+len(auth),1])+auth
    bfd=struct.pack('!BBBBIIIII',(1<<5)|diag,(sta<<6)|fl,mult,24+len(au),a.disc,your,tx,rx,echo)+au
    ulen=8+len(bfd)
    udp=struct.pack('!HHHH',a.port,3784,ulen,0)
    if a.ip.version==4: ps=a.ip.packed+b.ip.packed+struct.pack('!BBH',0,17,ulen)
    else: ps=a.ip.packed+b.ip.packed+struct.pack('!IBBBB',ulen,0,0,0,17)
    c=csum(ps+udp+bfd) or 0xffff
    udp=udp[:6]+struct.pack('!H',c)
    if a.ip.version==4:
        a.id+=1
        h=struct.pack('!BBHHHBBH',0x45,0xc0,20+ulen,a.id,0,255,17,0)+a.ip.packed+b.ip.packed
        h=h[:10]+struct.pack('!H',csum(h))+h[12:]; et=0x0800
    else:
        h=struct.pack('!IHBB',(6<<28)|(0xc0<<20),ulen,17,255)+a.ip.packed+b.ip.packed; et=0x86dd
    fr=b.mac+a.mac+struct.pack('!H',et)+h+udp+bfd
    frames.append((t,fr))
AD,DN,IN,UP=0,1,2,3
F=300000
# one: IPv4, comes up, loses one direction, goes down with diagnostic 1, comes up again
a=End('192.0.2.1','02:00:00:00:00:01',49152,0x11); b=End('192.0.2.2','02:00:00:00:00:02',49153,0x22)
send(0.00,a,b,DN,your=0); send(0.91,a,b,DN,your=0)
send(1.02,b,a,DN,your=0)
send(1.03,a,b,IN); send(1.04,b,a,UP,p=1,tx=F); send(1.05,a,b,UP,f=1); send(1.06,a,b,UP,p=1,tx=F); send(1.07,b,a,UP,f=1,tx=F)
t=1.3
for k in range(5):
    send(t,a,b,UP,tx=F); send(t+.11,b,a,UP,tx=F); t+=.27
# b's packets no longer arrive; a's detection time is 3 * 300 ms
for k in range(3): send(t,a,b,UP,tx=F); t+=.27
td=1.3+4*.27+.11+.9
send(td,a,b,DN,diag=1,your=0)
send(td+.02,b,a,DN,diag=3)
send(td+.03,a,b,IN,diag=1)
send(td+.04,b,a,UP,p=1,tx=F); send(td+.05,a,b,UP,f=1,tx=F)
t=td+.3
for k in range(3):
    send(t,a,b,UP,tx=F); send(t+.12,b,a,UP,tx=F); t+=.28
# two: IPv4, simple password, comes up; taken down by its administrator
c=End('198.51.100.1','02:00:00:00:01:01',50001,0x101); d=End('198.51.100.9','02:00:00:00:01:09',50002,0x909)
pw=dict(auth=b'weir-pw')
send(0.50,c,d,DN,your=0,**pw); send(0.62,d,c,DN,your=0,**pw); send(0.64,c,d,IN,**pw); send(0.66,d,c,UP,**pw); send(0.68,c,d,UP,**pw)
for k in range(3): send(1.55+k*.9,c,d,UP,**pw); send(1.57+k*.9,d,c,UP,**pw)
send(4.20,d,c,AD,diag=7,**pw); send(4.22,c,d,DN,diag=3,**pw); send(5.10,d,c,AD,diag=7,**pw)
# three: IPv6, comes up and stays
e=End('2001:db8::1','02:00:00:00:02:01',51001,0x3001); g=End('2001:db8::2','02:00:00:00:02:02',51002,0x3002)
send(2.00,e,g,DN,your=0,rx=1000000); send(2.30,g,e,DN,your=0,rx=1000000); send(2.31,e,g,IN,rx=1000000); send(2.33,g,e,UP,rx=1000000); send(2.34,e,g,UP,rx=1000000)
for k in range(3): send(3.2+k*.9,e,g,UP,rx=1000000); send(3.25+k*.9,g,e,UP,rx=1000000)
for k in range(2): send(25.0+k*.9,e,g,UP,rx=1000000); send(25.05+k*.9,g,e,UP,rx=1000000)
frames.sort(key=lambda x:x[0])
base=1793500000
with open(__file__.removesuffix('.py')+'.pcap','wb') as o:
    o.write(struct.pack('<IHHiIII',0xa1b2c3d4,2,4,0,0,65535,1))
    for t,fr in frames:
        us=round(t*1e6); o.write(struct.pack('<IIII',base+us//1000000,us%1000000,len(fr),len(fr))+fr)
print(len(frames))
