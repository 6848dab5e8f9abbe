/* libnids as its manual shows it: every TCP stream reassembled, both ways, bytes counted.
 *
 * Checksums are off (Weir does not verify them either), as is the port scan detector; the table holds
 * more connections than any trace has open.
 *
 *   cc -O2 -o nids nids.c -lnids -lpcap && ./nids FILE.pcap
 */
#include <nids.h>
#include <stdio.h>

static unsigned long long streams, bytes;

static void on_tcp(struct tcp_stream *stream, void **unused)
{
    (void)unused;
    if (stream->nids_state == NIDS_JUST_EST) {
        stream->client.collect++;
        stream->server.collect++;
        streams++;
    } else if (stream->nids_state == NIDS_DATA) {
        if (stream->client.count_new)
            bytes += (unsigned)stream->client.count_new;
        else
            bytes += (unsigned)stream->server.count_new;
    }
}

static void no_log(void)
{
}

int main(int argc, char **argv)
{
    static struct nids_chksum_ctl no_checksums = { 0, 0, NIDS_DONT_CHKSUM };

    if (argc != 2) {
        fprintf(stderr, "usage: nids FILE.pcap\n");
        return 2;
    }
    nids_params.filename = argv[1];
    nids_params.n_tcp_streams = 1 << 18;
    nids_params.n_hosts = 1 << 16;
    nids_params.scan_num_hosts = 0;
    nids_params.syslog = (void (*)())no_log;
    if (!nids_init()) {
        fprintf(stderr, "nids: %s\n", nids_errbuf);
        return 2;
    }
    nids_register_chksum_ctl(&no_checksums, 1);
    nids_register_tcp((void *)on_tcp);
    nids_run();
    printf("%llu streams, %llu bytes\n", streams, bytes);
    return 0;
}
