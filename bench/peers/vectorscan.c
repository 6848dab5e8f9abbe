/* Patterns in streams as an intrusion detection system looks for them: libnids puts the streams in order, and
 * vectorscan searches each direction in its streaming mode, all patterns at once.
 *
 *   cc -O2 -o vectorscan vectorscan.c -lnids -lpcap -lhs && ./vectorscan PATTERNS FILE.pcap
 */
#include <hs/hs.h>
#include <nids.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERNS_MAX 4096

struct search {
    hs_stream_t *client, *server;
};

static hs_database_t *database;
static hs_scratch_t *scratch;
static unsigned long long matches;

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *unused)
{
    (void)id, (void)from, (void)to, (void)flags, (void)unused;
    matches++;
    return 0;
}

static void on_tcp(struct tcp_stream *stream, void **state)
{
    struct search *search = *state;

    if (stream->nids_state == NIDS_JUST_EST) {
        stream->client.collect++;
        stream->server.collect++;
        search = malloc(sizeof *search);
        if (!search || hs_open_stream(database, 0, &search->client) || hs_open_stream(database, 0, &search->server))
            exit(2);
        *state = search;
    } else if (stream->nids_state == NIDS_DATA) {
        struct half_stream *half = stream->client.count_new ? &stream->client : &stream->server;
        hs_stream_t *to = stream->client.count_new ? search->client : search->server;
        hs_scan_stream(to, half->data, (unsigned)half->count_new, 0, scratch, on_match, NULL);
    } else if (search) {
        hs_close_stream(search->client, scratch, on_match, NULL);
        hs_close_stream(search->server, scratch, on_match, NULL);
        free(search);
        *state = NULL;
    }
}

static void no_log(void)
{
}

static void read_patterns(const char *name)
{
    static char *texts[PATTERNS_MAX];
    static unsigned ids[PATTERNS_MAX], flags[PATTERNS_MAX];
    unsigned count = 0;
    char line[4096];
    hs_compile_error_t *wrong;
    FILE *file = fopen(name, "r");

    if (!file) {
        perror(name);
        exit(2);
    }
    while (count < PATTERNS_MAX && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (*line) {
            texts[count] = strdup(line);
            ids[count] = count;
            count++;
        }
    }
    fclose(file);
    if (hs_compile_multi((const char *const *)texts, flags, ids, count, HS_MODE_STREAM, NULL, &database, &wrong)) {
        fprintf(stderr, "vectorscan: %s\n", wrong->message);
        exit(2);
    }
    hs_alloc_scratch(database, &scratch);
}

int main(int argc, char **argv)
{
    static struct nids_chksum_ctl no_checksums = { 0, 0, NIDS_DONT_CHKSUM };

    if (argc != 3) {
        fprintf(stderr, "usage: vectorscan PATTERNS FILE.pcap\n");
        return 2;
    }
    read_patterns(argv[1]);
    nids_params.filename = argv[2];
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
    printf("%llu matches\n", matches);
    return 0;
}
