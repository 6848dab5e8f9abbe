//! What keeps the rights to load filters for another process, and how that process, the worker, asks: each
//! place has some sockets, and at the other end of each is a thread of the keeper. The kernel may check a
//! filter for a second, and a filter of newer questions does not wait for one of older questions.
//!
//! The worker parses hostile bytes, so the keeper believes nothing. It accepts two requests: a table of
//! connections, and a filter, whose part it [checks](crate::proof) and puts into the program of the place by
//! itself. The answer has a descriptor, or a message.
//!
//! A request has four numbers of 32 bits, in the order of the machine:
//!
//! | first | second | third | fourth | then |
//! |---|---|---|---|---|
//! | 1: a filter | the number of its table, or [`NO_TABLE`] | instructions of its part | 0 | 8 bytes each |
//! | 2: a table | words of a key | words of an entry | entries at most | |
//!
//! An answer has three numbers: 0, or 1 for an error; the number of a table; and the bytes of the message,
//! which follow.

use crate::bpf::{HashMap, Program};
use crate::flow_map::FlowMap;
use crate::place::Place;
use crate::proof;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_guard::sockets;
use weir_packet::{BpfInstruction, KernelFilter};

const FILTER: u32 = 1;
const TABLE: u32 = 2;
/// The number of no table.
const NO_TABLE: u32 = u32::MAX;

/// Bytes of an instruction (RFC 9669, section 3).
const INSTRUCTION_BYTES: usize = size_of::<BpfInstruction>();
/// Words of a key, of an entry, and entries of a table at most.
const TABLE_MAX: [u32; 3] = [16, 64, 1 << 16];
/// Sockets of a place.
const SOCKETS: usize = 3;
/// Tables that the keeper remembers: the current one of all interfaces, and the next one.
const TABLES_MAX: usize = 4;
/// Requests of a place that are answered at once, and those for each second after that: each has memory of
/// the kernel. A table counts as one more for each of these bytes that it may grow to.
const REQUESTS_AT_ONCE: u32 = 256;
const REQUESTS_PER_S: f64 = 16.0;
const TABLE_BYTES: f64 = 1_048_576.0;
/// Bytes of a message at most.
const MESSAGE_BYTES_MAX: usize = 4096;

/// The worker's end of a socket of a place.
#[derive(Debug)]
pub(crate) struct Client {
    place: Arc<Place>,
    socket: UnixStream,
}

/// The process that loads filters for others.
#[derive(Debug)]
pub struct Keeper {
    /// By place.
    places: Vec<(Arc<Place>, Vec<UnixStream>)>,
    tables: Tables,
}

/// The tables that the keeper has made, with their numbers. The oldest is first.
#[derive(Debug, Clone, Default)]
struct Tables(Arc<Mutex<(u32, Vec<Table>)>>);

#[derive(Debug, Clone)]
struct Table {
    number: u32,
    map: Arc<HashMap>,
    key_words: usize,
}

/// The sockets of each place, and their two ends.
pub(crate) fn channels(places: Vec<Arc<Place>>) -> io::Result<(Vec<Vec<Client>>, Keeper)> {
    let (mut clients, mut kept) = (vec![], vec![]);
    for place in places {
        let pairs: io::Result<Vec<_>> = (0..SOCKETS).map(|_| UnixStream::pair()).collect();
        let (own, others): (Vec<_>, _) = pairs?.into_iter().unzip();
        let client = |socket| Client { place: Arc::clone(&place), socket };
        clients.push(own.into_iter().map(client).collect());
        kept.push((place, others));
    }
    Ok((clients, Keeper { places: kept, tables: Tables::default() }))
}

impl Client {
    pub fn load(&mut self, filter: &KernelFilter, table: Option<u32>) -> io::Result<Program> {
        let part = self.place.part_of(filter);
        let mut bytes = request([FILTER, table.unwrap_or(NO_TABLE), part.len() as u32, 0]).to_vec();
        bytes.extend(part.iter().flat_map(|one| one.to_bytes()));
        self.ask(&bytes).map(|(program, _)| Program::from_other(program))
    }

    pub fn table(&mut self, words: [usize; 3]) -> io::Result<FlowMap> {
        let [key_words, entry_words, entries] = words.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        let (map, number) = self.ask(&request([TABLE, key_words, entry_words, entries]))?;
        let [key_words, entry_words, _] = words;
        Ok(FlowMap::of_keeper(HashMap::from_other(map, [key_words, entry_words])?, number))
    }

    fn ask(&mut self, request: &[u8]) -> io::Result<(OwnedFd, u32)> {
        self.socket.write_all(request)?;
        let (answer, descriptor) = receive(&self.socket)?;
        let [status, number, bytes] = answer;
        match (status, descriptor) {
            (0, Some(descriptor)) => Ok((descriptor, number)),
            (0, None) => Err(io::Error::other("no descriptor came: this process has too many open files")),
            _ => {
                let mut message = vec![0; (bytes as usize).min(MESSAGE_BYTES_MAX)];
                self.socket.read_exact(&mut message)?;
                Err(io::Error::other(String::from_utf8_lossy(&message).into_owned()))
            }
        }
    }
}

fn request(numbers: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.chunks_exact_mut(4).zip(numbers).for_each(|(to, number)| to.copy_from_slice(&number.to_ne_bytes()));
    bytes
}

/// Receives an answer's numbers and its descriptor.
fn receive(socket: &UnixStream) -> io::Result<([u32; 3], Option<OwnedFd>)> {
    let mut bytes = [0; 12];
    let (received, descriptor) = sockets::receive(socket, &mut bytes)?;
    if received == 0 {
        return Err(io::Error::other("the process that loads filters has ended"));
    }
    let mut rest = socket;
    rest.read_exact(&mut bytes[received..])?;
    Ok((numbers(&bytes), descriptor))
}

fn numbers<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut all = bytes.chunks_exact(4).map(|four| four.try_into().map_or(0, u32::from_ne_bytes));
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

impl Keeper {
    /// Serves until the worker has closed its ends, with a thread for each socket. Each thread first calls
    /// `enter`, which gives up all rights but those to load programs and make maps.
    ///
    /// # Errors
    /// If the system makes no thread.
    pub fn serve(
        self,
        enter: impl Fn() + Clone + Send + 'static,
    ) -> io::Result<Vec<std::thread::JoinHandle<()>>> {
        let mut threads = vec![];
        for (place, sockets) in self.places {
            // The worker alone says how long the program stays attached.
            place.attachment().take();
            let budget = Arc::new(Mutex::new(Budget::new()));
            for socket in sockets {
                let (enter, tables) = (enter.clone(), self.tables.clone());
                let (place, budget) = (Arc::clone(&place), Arc::clone(&budget));
                let serve = move || {
                    enter();
                    // Until the worker has closed its end, or has sent no request.
                    while let Ok(requests) = answer(&place, &tables, &socket) {
                        budget.lock().unwrap_or_else(PoisonError::into_inner).spend(requests);
                    }
                };
                threads.push(std::thread::Builder::new().name("weir-keeper".into()).spawn(serve)?);
            }
        }
        Ok(threads)
    }
}

/// Answers a request. Returns as how many requests this one counts.
///
/// # Errors
/// If the worker has closed its end, or sends no request.
fn answer(place: &Place, tables: &Tables, mut socket: &UnixStream) -> io::Result<f64> {
    let mut header = [0; 16];
    socket.read_exact(&mut header)?;
    let mut counts_as = 1.0;
    let answered = match numbers(&header) {
        [FILTER, table, count, 0] if count as usize <= KernelFilter::INSTRUCTIONS_MAX => {
            let mut bytes = vec![0; count as usize * INSTRUCTION_BYTES];
            socket.read_exact(&mut bytes)?;
            let part: Vec<_> =
                bytes.as_chunks().0.iter().map(|bytes| BpfInstruction::from_bytes(*bytes)).collect();
            load(place, tables, table, &part).map(|program| (Made::Program(program), 0))
        }
        [TABLE, key_words, entry_words, entries] => {
            let words = f64::from(key_words) + f64::from(entry_words);
            let made = tables.make([key_words, entry_words, entries]);
            made.map(|table| {
                counts_as += 8.0 * words * f64::from(entries) / TABLE_BYTES;
                (Made::Table(table.map), table.number)
            })
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    let (numbers, made, message) = match answered {
        Ok((made, number)) => ([0, number, 0], Some(made), String::new()),
        Err(error) => {
            let mut message = error.to_string();
            message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
            ([1, 0, message.len() as u32], None, message)
        }
    };
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    sockets::send(socket, &bytes, made.as_ref().map(Made::descriptor))?;
    socket.write_all(message.as_bytes())?;
    Ok(counts_as)
}

/// How many requests may be answered now.
struct Budget {
    left: f64,
    since: Instant,
}

impl Budget {
    fn new() -> Self {
        Self { left: f64::from(REQUESTS_AT_ONCE), since: Instant::now() }
    }

    /// What counts as this many requests was answered. Waits until another one may be.
    fn spend(&mut self, requests: f64) {
        let earned = self.since.elapsed().as_secs_f64() * REQUESTS_PER_S;
        self.since = Instant::now();
        self.left = (self.left + earned - requests).min(f64::from(REQUESTS_AT_ONCE));
        if self.left < 1.0 {
            std::thread::sleep(Duration::from_secs_f64((1.0 - self.left) / REQUESTS_PER_S));
        }
    }
}

/// What the kernel has made.
enum Made {
    Program(Program),
    Table(Arc<HashMap>),
}

impl Made {
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Program(program) => program.descriptor(),
            Self::Table(map) => map.descriptor(),
        }
    }
}

/// Loads a filter, if its part is one of ours.
fn load(place: &Place, tables: &Tables, table: u32, part: &[BpfInstruction]) -> io::Result<Program> {
    let refused = |why: &str| io::Error::other(format!("the filter was refused: {why}"));
    let table = match table {
        NO_TABLE => None,
        number => Some(tables.get(number).ok_or_else(|| refused("there is no such table"))?),
    };
    let key_words = table.as_ref().map(|table| table.key_words);
    proof::check(part, place.is_interface(), key_words).map_err(|why| refused(&why))?;
    place.load(Some(part), table.map(|table| table.map.number()))
}

impl Tables {
    fn make(&self, numbers: [u32; 3]) -> io::Result<Table> {
        if numbers.iter().zip(TABLE_MAX).any(|(number, most)| *number == 0 || *number > most) {
            return Err(io::Error::other(format!("no table has {numbers:?} words and entries")));
        }
        let [key_words, entry_words, entries] = numbers.map(|number| number as usize);
        let map = Arc::new(HashMap::new([key_words, entry_words], entries)?);
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, all) = &mut *tables;
        *last = last.wrapping_add(1) % NO_TABLE;
        let table = Table { number: *last, map, key_words };
        all.push(table.clone());
        let old = all.len().saturating_sub(TABLES_MAX);
        all.drain(..old);
        Ok(table)
    }

    fn get(&self, number: u32) -> Option<Table> {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.1.iter().find(|table| table.number == number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::PlaceKind;
    use weir_packet::bpf::code::{CALL, MOVE};

    /// A keeper of one place, if the process may have one.
    fn channel() -> Option<(Client, Keeper)> {
        let place = Place::new(PlaceKind::Sockets);
        let place = place.inspect_err(|error| eprintln!("skipped: needs CAP_BPF: {error}")).ok()?;
        let (mut clients, keeper) = channels(vec![Arc::new(place)]).expect("sockets");
        let client = clients.pop().and_then(|mut own| own.pop()).expect("one place");
        Some((client, keeper))
    }

    fn filter(part: &[BpfInstruction]) -> KernelFilter {
        KernelFilter { frame: part.to_vec(), copy: part.to_vec() }
    }

    #[test]
    fn filters_and_tables_are_made_and_others_are_refused() {
        let Some((mut client, keeper)) = channel() else { return };
        let threads = keeper.serve(|| {}).expect("threads");
        let verdict = BpfInstruction::new(MOVE, 0, 0, 0, KernelFilter::NEEDED);
        let table = client.table([2, 5, 64]).expect("a table");
        client.load(&filter(&[verdict]), table.keeper_number()).expect("a filter with a table");
        client.load(&filter(&[verdict]), None).expect("a filter");
        let wrong = client.load(&filter(&[BpfInstruction::new(CALL, 0, 0, 0, 6)]), None);
        let said = wrong.expect_err("it calls another function").to_string();
        assert!(said.contains("refused: instruction 0"), "{said}");
        let unknown = client.load(&filter(&[verdict]), Some(77)).expect_err("no such table");
        assert!(unknown.to_string().contains("no such table"), "{unknown}");
        assert!(client.load(&filter(&[]), None).is_err(), "it has no verdict");
        for words in [[0, 5, 64], [17, 5, 64], [2, 0, 64], [2, 65, 64], [2, 5, 0], [2, 5, usize::MAX]] {
            assert!(client.table(words).is_err(), "{words:?}");
        }
        // Old tables are forgotten, new ones are there.
        let tables: Vec<FlowMap> = (0..6).map(|_| client.table([2, 5, 64]).expect("a table")).collect();
        assert!(client.load(&filter(&[verdict]), tables[0].keeper_number()).is_err());
        client.load(&filter(&[verdict]), tables[5].keeper_number()).expect("the newest");
        drop(client);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends with the worker"));
    }

    /// What a worker sends that was taken over: requests that are cut, mixed up, or of random bytes.
    #[test]
    fn no_request_harms_the_keeper() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..400 {
            let Some((client, keeper)) = channel() else { return };
            let threads = keeper.serve(|| {}).expect("threads");
            let kind = [FILTER, TABLE, random() as u32][random() as usize % 3];
            let count = random() as u32 % 40;
            let mut bytes =
                request([kind, [NO_TABLE, random() as u32][random() as usize % 2], count, 0]).to_vec();
            for _ in 0..count {
                // Codes of the language, with any operands.
                let codes =
                    [0xb7, 0xbf, 0x18, 0x61, 0x79, 0x7b, 0xdb, 0x05, 0x15, 0x2d, 0x85, 0x07, 0x0f, 0xdc];
                let code = codes[random() as usize % codes.len()];
                bytes.extend([code, random() as u8 & 0x77, random() as u8 % 4, 0]);
                bytes.extend((random() as i32 % 8).to_ne_bytes());
            }
            bytes.truncate(bytes.len() - random() as usize % 9);
            let mut socket = &client.socket;
            socket.write_all(&bytes).expect("the keeper reads");
            socket.shutdown(std::net::Shutdown::Write).expect("it is open");
            let mut answer = vec![];
            // A keeper that closes its end early resets the connection.
            let _ = socket.read_to_end(&mut answer);
            threads.into_iter().for_each(|thread| thread.join().expect("the keeper does not panic"));
        }
    }
}
