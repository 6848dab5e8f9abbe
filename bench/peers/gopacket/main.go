// gopacket's reassembly as its documentation shows it: every TCP stream put in order, both ways, bytes counted.
//
// One core; decoding without allocation; checksums and the state machine of TCP are not asked (libnids and Weir verify
// nothing here either). Fragments are not put together: the traces have none to speak of.
//
//	go build -o gopacket . && ./gopacket FILE.pcap
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/gopacket/gopacket/reassembly"
)

const (
	readBytes = 1 << 20
	// Connections are looked through for idle ones after so much time of the capture.
	flushEvery = 10 * time.Second
	idle       = 5 * time.Minute
)

// counter is the factory of all streams, and their sum.
type counter struct{ streams, bytes uint64 }

func (c *counter) New(gopacket.Flow, gopacket.Flow, *layers.TCP, reassembly.AssemblerContext) reassembly.Stream {
	c.streams++
	return &stream{c}
}

type stream struct{ counter *counter }

func (s *stream) Accept(_ *layers.TCP, _ gopacket.CaptureInfo, _ reassembly.TCPFlowDirection, _ reassembly.Sequence, _ *bool, _ reassembly.AssemblerContext) bool {
	// Streams begin with their SYN, as libnids has them. Were any packet a beginning, the last acknowledgement of a closed
	// connection would begin another one, in which the first request of the next with the same ports is lost.
	return true
}

func (s *stream) ReassembledSG(sg reassembly.ScatterGather, _ reassembly.AssemblerContext) {
	length, _ := sg.Lengths()
	s.counter.bytes += uint64(len(sg.Fetch(length)))
}

func (s *stream) ReassemblyComplete(reassembly.AssemblerContext) bool { return true }

// context says when the packet at hand was captured.
type context struct{ info gopacket.CaptureInfo }

func (c *context) GetCaptureInfo() gopacket.CaptureInfo { return c.info }

func run(file io.Reader) (*counter, error) {
	reader, err := pcapgo.NewReader(bufio.NewReaderSize(file, readBytes))
	if err != nil {
		return nil, err
	}
	var (
		sums      counter
		ethernet  layers.Ethernet
		vlan      layers.Dot1Q
		ip4       layers.IPv4
		ip6       layers.IPv6
		tcp       layers.TCP
		decoded   []gopacket.LayerType
		lastFlush time.Time
	)
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &ethernet, &vlan, &ip4, &ip6, &tcp)
	parser.IgnoreUnsupported = true
	assembler := reassembly.NewAssembler(reassembly.NewStreamPool(&sums))
	for {
		frame, info, err := reader.ZeroCopyReadPacketData()
		if err == io.EOF {
			assembler.FlushAll()
			return &sums, nil
		}
		if err != nil {
			return &sums, err
		}
		if info.Timestamp.Sub(lastFlush) >= flushEvery {
			lastFlush = info.Timestamp
			assembler.FlushCloseOlderThan(lastFlush.Add(-idle))
		}
		// What can't be decoded to its end has no TCP among its layers, or all of it.
		_ = parser.DecodeLayers(frame, &decoded)
		var network gopacket.Flow
		for _, layer := range decoded {
			switch layer {
			case layers.LayerTypeIPv4:
				network = ip4.NetworkFlow()
			case layers.LayerTypeIPv6:
				network = ip6.NetworkFlow()
			case layers.LayerTypeTCP:
				assembler.AssembleWithContext(network, &tcp, &context{info})
			}
		}
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gopacket FILE.pcap")
		os.Exit(2)
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	sums, err := run(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("%d bytes, %d streams\n", sums.bytes, sums.streams)
}
