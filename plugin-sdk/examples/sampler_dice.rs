// A sampler in Rust, against the C structures of dllm_sdk/sampler_abi.h written out by hand: one open
// position a step, drawn with the SDK's own random numbers (philox.h), filled with its candidate.
//
// The declarations follow sampler_abi.h and plugin_abi.h of ABI 1.0 field by field. A panic must not
// cross the boundary: build with panic=abort, or catch it.
use std::os::raw::{c_char, c_void};
use std::ptr;

#[repr(C)]
struct Descriptor {
    magic: [u8; 8],
    struct_size: u32,
    abi_major: u16,
    abi_minor: u16,
    kind: u32,
    reserved: u32,
    id: [u8; 32],
    version: [u8; 32],
    tag: [u8; 192],
    summary: [u8; 128],
}

#[repr(C, align(4))]
struct Note {
    owner_size: u32,
    descriptor_size: u32,
    kind: u32,
    owner: [u8; 8],
    descriptor: Descriptor,
}

const fn padded<const N: usize>(text: &str) -> [u8; N] {
    let bytes = text.as_bytes();
    assert!(bytes.len() < N);
    let mut out = [0u8; N];
    let mut i = 0;
    while i < bytes.len() {
        out[i] = bytes[i];
        i += 1;
    }
    out
}

#[used]
#[link_section = ".note.dllm"]
static NOTE: Note = Note {
    owner_size: 5,
    descriptor_size: std::mem::size_of::<Descriptor>() as u32,
    kind: 1,
    owner: padded("dllm"),
    descriptor: Descriptor {
        magic: padded("DLLMPLG"),
        struct_size: std::mem::size_of::<Descriptor>() as u32,
        abi_major: 1,
        abi_minor: 0,
        kind: 1, // DLLM_PLUGIN_KIND_SAMPLER
        reserved: 0,
        id: padded("dice"),
        version: padded("1.0.0"),
        tag: [0; 192],
        summary: padded("a random open position each step, in Rust"),
    },
};

#[repr(C)]
pub struct Error {
    struct_size: u32,
    reserved: u32,
    message: [u8; 1024],
}

#[repr(C)]
pub struct Canvas {
    struct_size: u32,
    n_positions: u32,
    ids: *const i32,
    state: *const u8,
    editable: *const u8,
    block_starts: *const u32,
    n_block_starts: u32,
    step: u32,
}

#[repr(C)]
pub struct Plan {
    struct_size: u32,
    flags: u32,
    n_positions: u32,
    want: u32,
    positions: *const u32,
    window_begin: u32,
    window_end: u32,
    domain: u32,
    temperature: f32,
    top_p: f32,
    top_k: u32,
    guidance_scale: f32,
    n_suppress_both: u32,
    n_suppress_confidence: u32,
    n_prob_of: u32,
    n_top_list: u32,
    suppress_both: *const i32,
    suppress_confidence: *const i32,
    prob_of: *const i32,
}

// The fields behind those that are read may be left out: the host hands over a pointer.
#[repr(C)]
pub struct Stats {
    struct_size: u32,
    n_rows: u32,
    positions: *const u32,
    sampled: *const i32,
    sampled_prob: *const f32,
}

#[repr(C)]
pub struct Edit {
    position: u32,
    token: i32,
    kind: u32,
    confidence: f32,
}

#[repr(C)]
pub struct Edits {
    struct_size: u32,
    status: u32,
    n_edits: u32,
    reserved: u32,
    edits: *const Edit,
}

pub struct Run {
    seed: u64,
    position: u32,
    edit: Edit,
}

const OK: i32 = 0;
const ERROR: i32 = 1;
const MASKED: u8 = 1;
const WANT_SAMPLED: u32 = 1;
const DRAW_ORDER: u32 = 2;
const COMMIT: u32 = 0;
const RUNNING: u32 = 0;
const FINISHED: u32 = 1;

/// Philox4x32-10 as in dllm_sdk/philox.h: uniform in (0, 1).
fn uniform(seed: u64, step: u32, position: u32, index: u32, purpose: u32) -> f64 {
    let mut c = [step, position, index / 4, purpose];
    let mut k = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let p0 = 0xD2511F53u64 * u64::from(c[0]);
        let p1 = 0xCD9E8D57u64 * u64::from(c[2]);
        c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
        k = [k[0].wrapping_add(0x9E3779B9), k[1].wrapping_add(0xBB67AE85)];
    }
    (f64::from(c[(index % 4) as usize]) + 0.5) / 4294967296.0
}

unsafe fn open_positions(canvas: &Canvas) -> Vec<u32> {
    (0..canvas.n_positions)
        .filter(|&i| *canvas.state.add(i as usize) == MASKED && *canvas.editable.add(i as usize) != 0)
        .collect()
}

unsafe fn fail(error: *mut Error, message: &str) -> i32 {
    let bytes = &message.as_bytes()[..message.len().min(1023)];
    ptr::copy_nonoverlapping(bytes.as_ptr(), (*error).message.as_mut_ptr(), bytes.len());
    (*error).message[bytes.len()] = 0;
    ERROR
}

// The rule has no options and no state of its own: any address will do.
unsafe extern "C" fn create(_: *const c_void, _: u32, _: *const c_void, out: *mut *const u8, _: *mut Error) -> i32 {
    static RULE: u8 = 0;
    *out = &RULE;
    OK
}

unsafe extern "C" fn destroy(_: *const u8) {}

unsafe extern "C" fn start(_: *const u8, _: *const Canvas, seed: u64, out: *mut *mut Run, _: *mut Error) -> i32 {
    let edit = Edit { position: 0, token: 0, kind: COMMIT, confidence: 0.0 };
    *out = Box::into_raw(Box::new(Run { seed, position: 0, edit }));
    OK
}

unsafe extern "C" fn end(run: *mut Run) {
    drop(Box::from_raw(run));
}

unsafe extern "C" fn plan(run: *mut Run, canvas: *const Canvas, out: *mut Plan, _: *mut Error) -> i32 {
    let run = &mut *run;
    let open = open_positions(&*canvas);
    if open.is_empty() {
        return OK;
    }
    let u = uniform(run.seed, (*canvas).step, 0, 0, DRAW_ORDER);
    run.position = open[(u * open.len() as f64) as usize];
    (*out).positions = &run.position;
    (*out).n_positions = 1;
    (*out).want = WANT_SAMPLED;
    OK
}

unsafe extern "C" fn apply(run: *mut Run, canvas: *const Canvas, stats: *const Stats, out: *mut Edits, error: *mut Error) -> i32 {
    let (run, stats) = (&mut *run, &*stats);
    (*out).status = FINISHED;
    if stats.n_rows == 0 {
        return OK;
    }
    let (token, confidence) = (*stats.sampled, *stats.sampled_prob);
    if token < 0 || confidence.is_nan() {
        return fail(error, "the row has no candidate");
    }
    run.edit = Edit { position: *stats.positions, token, kind: COMMIT, confidence };
    (*out).edits = &run.edit;
    (*out).n_edits = 1;
    if open_positions(&*canvas).len() > 1 {
        (*out).status = RUNNING;
    }
    OK
}

#[repr(C)]
pub struct Table {
    struct_size: u32,
    n_options: u32,
    options: *const c_void,
    create: unsafe extern "C" fn(*const c_void, u32, *const c_void, *mut *const u8, *mut Error) -> i32,
    destroy: unsafe extern "C" fn(*const u8),
    start: unsafe extern "C" fn(*const u8, *const Canvas, u64, *mut *mut Run, *mut Error) -> i32,
    end: unsafe extern "C" fn(*mut Run),
    plan: unsafe extern "C" fn(*mut Run, *const Canvas, *mut Plan, *mut Error) -> i32,
    apply: unsafe extern "C" fn(*mut Run, *const Canvas, *const Stats, *mut Edits, *mut Error) -> i32,
    get_extension: Option<unsafe extern "C" fn(*const c_char) -> *const c_void>,
}

// Constant data, shared by all threads.
unsafe impl Sync for Table {}

static TABLE: Table = Table {
    struct_size: std::mem::size_of::<Table>() as u32,
    n_options: 0,
    options: ptr::null(),
    create,
    destroy,
    start,
    end,
    plan,
    apply,
    get_extension: None,
};

#[no_mangle]
pub extern "C" fn dllm_plugin_entry(_host: *const c_void, _error: *mut Error) -> *const Table {
    &TABLE
}
