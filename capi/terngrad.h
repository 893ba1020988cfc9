// terngrad: compressed gradients, for any language that calls C. C99, and valid C++98. docs/c-api.md is the guide.
//
// - Results: what can fail returns a tg_status, TG_OK on success; tg_last_error() says what was wrong. A call that
//   fails leaves its outputs alone, unless its description says otherwise. No exception leaves the library.
// - Handles: tg_X_create makes one, tg_X_destroy ends it (NULL is fine). A handle keeps what it was made of, so
//   handles may be destroyed in any order. None survives fork.
// - Threads: different handles serve any threads at the same time. One handle serves one thread at a time, but
//   functions that take it as const may be called by several. Callbacks come on the thread that calls.
// - Memory: arrays are the caller's, used during the call and never kept. Strings are UTF-8, and copied. What a
//   function hands out belongs to the handle; its description says how long it is valid.
// - Structs that begin with struct_size may grow: set that to the struct's sizeof. The library fills in what fits.
// - Options are text: KEY=VALUE, separated by blanks; NULL or "" for the defaults. A key that is unknown or given twice
//   is an error that names it and those that are accepted.
// - Sizes are numbers of elements or bytes. Workers, ranks, tensors and steps are counted from 0; a step is less than
//   2^40.
// - Results are bit-identical for any number of threads and ranks and for any algorithm (docs/architecture.md).
#ifndef TERNGRAD_H
#define TERNGRAD_H

#include <stdint.h>

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#else
#define TG_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- Status

typedef int32_t tg_status;
enum {
  TG_OK = 0,
  TG_INVALID_ARGUMENT = 1,  // an argument or option breaks what the description asks for
  TG_NOT_SUPPORTED = 2,     // this build or machine lacks what was asked for
  TG_DATA = 3,              // data are damaged or not what they should be
  TG_COMMUNICATION = 4,     // a message is damaged, of another run, or does not arrive
  TG_NONFINITE = 5,         // a gradient holds NaN or infinity, or a mean overflows
  TG_DEVICE = 6,            // a call to a device's runtime failed
  TG_OUT_OF_MEMORY = 7,
  TG_CALLBACK = 8,  // a callback of the caller failed
  TG_INTERNAL = 9   // a mistake of the library
};

/// Grows when functions are added. Under one SONAME, libterngrad.so.0, none is changed or removed.
#define TG_ABI_VERSION 1
/// TG_ABI_VERSION of the library that is loaded.
TG_API uint32_t tg_abi_version(void);
/// Version, commit, and the runtime of its threads: "0.1.0 f4d22258764d threads=openmp".
TG_API const char* tg_version(void);
/// What the last call of this thread that failed said, in one line; "" before the first. Valid until its next failure.
TG_API const char* tg_last_error(void);
/// "TG_OK", "TG_INVALID_ARGUMENT", ...; "unknown" for another number.
TG_API const char* tg_status_name(tg_status status);

// ---- Arrays and threads

enum { TG_FP32 = 0, TG_BF16 = 1, TG_FP16 = 2 };  // tg_array.type
enum { TG_CPU = 1 };                             // tg_array.device_type, as DLPack numbers devices
enum { TG_READ_ONLY = 1 };                       // tg_array.flags

/// Elements in row-major order, compact and aligned to their size. Functions take arrays in the memory of the CPU
/// (device_type TG_CPU, device_id 0). What is written must be TG_FP32 and not TG_READ_ONLY, and no two arrays that one
/// call writes may overlap. Without elements `data` may be NULL.
typedef struct tg_array {
  void* data;
  int64_t count;
  int32_t type;
  int32_t device_type;
  int32_t device_id;
  int32_t flags;
} tg_array;

struct DLManagedTensor;
struct DLManagedTensorVersioned;
/// The memory of a DLPack tensor as an array. Its deleter is never called: the tensor has to live as long as the array
/// is used. Tensors of any device are taken; functions refuse arrays of other devices than the CPU.
/// @returns TG_INVALID_ARGUMENT for strides that are not compact, other types than fp32, bf16 and fp16, and misaligned
/// memory; TG_NOT_SUPPORTED for versions of DLPack other than 1.x
TG_API tg_status tg_array_from_dlpack(const struct DLManagedTensorVersioned* tensor, tg_array* out);
/// The same of the struct that has no version, and does not say whether its memory may be written to.
TG_API tg_status tg_array_from_dlpack_legacy(const struct DLManagedTensor* tensor, tg_array* out);

/// Where work runs. NULL in its place: in the calling thread alone. Results do not depend on it.
typedef struct tg_stream tg_stream;
/// The CPU. @param num_threads  how many may work at once, the calling one included: at least 1
TG_API tg_status tg_stream_cpu(int32_t num_threads, tg_stream** out);
TG_API void tg_stream_destroy(tg_stream* stream);

// ---- Layouts: which tensors there are

/// A list of tensors: all workers have the same, in the same order.
typedef struct tg_layout tg_layout;
TG_API tg_status tg_layout_create(tg_layout** out);
TG_API void tg_layout_destroy(tg_layout* layout);
enum { TG_IS_LOGITS = 1 };  // weights or biases of the last layer: see the option quantize_logits
/// Adds a tensor.
/// @param name   not empty, and none that is there. Names decide codecs (codec_for)
/// @param shape  [dims] sizes, in row-major order; may be NULL if dims is 0, which is a single element
/// @param flags  0 or TG_IS_LOGITS
/// @param index  out: its number; may be NULL
TG_API tg_status tg_layout_add(tg_layout* layout, const char* name, const int64_t* shape, int32_t dims, uint32_t flags,
                               int32_t* index);
/// Hash of names, shapes and flags in order.
TG_API tg_status tg_layout_fingerprint(const tg_layout* layout, uint64_t* out);

// ---- Plans: how each tensor travels

/// All codecs and presets as JSON: {"codecs": [{"name", "summary", "source", "bits_per_element": [numbers],
/// "varying_by": [words], "most_bits", "unbiased", "summable", "sums_as_float", "runs_on_gpus", "keys": [{"name",
/// "default", "accepted", "meaning"}]}], "presets": [{"name", "summary", "spec", "memory"}]}, where "unbiased" and
/// "summable" are
/// {"by_default": boolean, "changed_by": [words]}.
/// @param text    out: [capacity], ended by a zero; may be NULL if capacity is 0
/// @param needed  out: how many bytes that takes, the zero included; may be NULL
/// @returns TG_INVALID_ARGUMENT for a capacity that is too small, but not for 0. `needed` is set also then
TG_API tg_status tg_codec_list(char* text, int64_t capacity, int64_t* needed);

/// The codec of each tensor, for a number of workers. Does not change, so that threads may share it.
typedef struct tg_plan tg_plan;
/// @param layout       what is added to it later does not count
/// @param num_workers  N of the run, which means divide by: from 1 to 2^24
/// @param options
/// - codec=SPEC: a codec or preset, NAME or NAME:KEY=VALUE,... (docs/codecs.md); ternary by default
/// - KEY=VALUE: further keys of that codec, as in "codec=ternary clip_factor=2.5"
/// - codec_for=PATTERN=SPEC: the codec of tensors whose names match (* any characters, ? any one, blanks too). May be
///   given several times; of several matches the first counts
/// - min_elements=NUMBER: smaller tensors travel as fp32; 1 by default
/// - quantize_logits=false|true: whether tensors with TG_IS_LOGITS travel like others, not as fp32; false by default
/// - seed=NUMBER: of the draws of the run whose messages are read (tg_message_decode, tg_aggregate), which codecs that
///   rotate need; 1 by default
TG_API tg_status tg_plan_create(const tg_layout* layout, int32_t num_workers, const char* options, tg_plan** out);
TG_API void tg_plan_destroy(tg_plan* plan);

typedef struct tg_plan_info {
  uint32_t struct_size;
  int32_t num_workers;
  int32_t num_tensors;
  int32_t reserved;
  int64_t num_scalers;   // of a worker
  uint64_t fingerprint;  // of layout and codecs: messages carry it
  const char* memory;    // what workers keep by default: "none", "ef:decay=1", ... Valid as long as the plan
} tg_plan_info;
TG_API tg_status tg_plan_get_info(const tg_plan* plan, tg_plan_info* out);

typedef struct tg_tensor_plan {
  uint32_t struct_size;
  int32_t fixed_size;  // 1: bits_per_element is exact; 0: at most, 48 bits for each 4,096 elements aside
  const char* name;    // valid as long as the plan, and so is codec
  const char* codec;   // its spec with all values
  int64_t num_elements;
  double bits_per_element;  // of codes, without scalers and headers
  int32_t unbiased;         // 1: E[decoded] = gradient
  int32_t exact;            // 1: decoded = gradient
  int32_t summable;         // 1: codes of workers add up as integers
  int32_t shares_scalers;   // 1: what a worker sends depends on the scalers of the others
  int64_t first_scaler;     // in a worker's list of scalers
  int64_t num_scalers;
  int64_t draw_offset;  // for tg_ternarize
} tg_tensor_plan;
/// @param tensor  its number in the layout
TG_API tg_status tg_plan_tensor(const tg_plan* plan, int32_t tensor, tg_tensor_plan* out);

// ---- Messages by hand (docs/wire-format.md)

/// One worker's gradients as messages: measure, share scalers if the codec does, encode.
typedef struct tg_encoder tg_encoder;
/// @param worker   of the plan's workers
/// @param options
/// - seed=NUMBER: of the draws; the plan's by default
/// - run_id=NUMBER: what messages carry; 0 by default
/// - on_nonfinite=stop|zero: of NaN and infinity; stop by default
TG_API tg_status tg_encoder_create(const tg_plan* plan, int32_t worker, const char* options, tg_encoder** out);
TG_API void tg_encoder_destroy(tg_encoder* encoder);
/// Measures the scalers of a gradient, and forgets those of other workers.
/// @param gradient  [n] one array for each tensor of the layout, in order, all of one type
/// @param step      keys the draws; messages carry it
/// @returns TG_NONFINITE if a tensor holds NaN or infinity. With on_nonfinite=zero it is sent as zeros instead
TG_API tg_status tg_encoder_measure(tg_encoder* encoder, const tg_array* gradient, int32_t n, uint64_t step,
                                    const tg_stream* stream);
/// What was measured, which the other workers have to be told. @param out  [n], n being tg_plan_info.num_scalers; NaN
/// stands for a tensor that is not finite
TG_API tg_status tg_encoder_scalers(const tg_encoder* encoder, float* out, int64_t n);
/// What another worker measured of this step. If any codec of the plan shares scalers, needed of all others before
/// tg_encoder_encode. @returns TG_NONFINITE for NaN, unless on_nonfinite=zero
TG_API tg_status tg_encoder_set_scalers(tg_encoder* encoder, int32_t worker, const float* scalers, int64_t n);
/// Encodes the gradient that was measured.
/// @param gradient        [n] with the same elements
/// @param message, bytes  out: a message of kind 2. Valid until the encoder encodes or measures again
TG_API tg_status tg_encoder_encode(tg_encoder* encoder, const tg_array* gradient, int32_t n, const uint8_t** message,
                                   int64_t* bytes, const tg_stream* stream);

typedef struct tg_message_info {
  uint32_t struct_size;
  int32_t kind;  // 2: a worker's gradient
  uint64_t run_id;
  uint64_t fingerprint;
  uint64_t step;
  uint32_t worker;
  int32_t num_records;
  uint64_t payload_bytes;
  uint64_t num_elements;
} tg_message_info;
/// One slice of a tensor in a message. Places are in bytes from the message's start.
typedef struct tg_record_info {
  uint32_t tensor;
  uint32_t codec;   // the number of docs/wire-format.md, as is format
  uint32_t format;  // of the codes
  uint32_t num_scalers;
  uint64_t first;       // element of the tensor
  uint64_t count;       // elements
  uint64_t scalers_at;  // where its scalers are
  uint64_t codes_at;    // where its codes are
  uint64_t codes_bytes;
} tg_record_info;
/// What a message of any kind says of itself; needs no plan. Lengths, bounds and checksums are checked, and nothing
/// else.
/// @param message   [bytes] at any address
/// @param records   out: [capacity]; may be NULL if capacity is 0, which fills in `info` only
/// @returns TG_COMMUNICATION if it is damaged or no message; TG_INVALID_ARGUMENT for a capacity other than 0 that is
/// too small, with `info` filled in
TG_API tg_status tg_message_inspect(const uint8_t* message, int64_t bytes, tg_message_info* info,
                                    tg_record_info* records, int32_t capacity);
/// Decodes a worker's gradient.
/// @param run_id, step  those of the message
/// @param message       [bytes] at any address
/// @param out           [n] one array for each tensor of the layout, in order
/// @param worker        out: whose it is; may be NULL
/// @returns TG_COMMUNICATION if it is damaged, or of another run, step, layout or codec; found out before `out` is
/// written
TG_API tg_status tg_message_decode(const tg_plan* plan, uint64_t run_id, uint64_t step, const uint8_t* message,
                                   int64_t bytes, const tg_array* out, int32_t n, int32_t* worker,
                                   const tg_stream* stream);
/// The mean of the gradients in messages: bit-identical to that of an exchange between all workers of the plan with
/// on_nonfinite=zero and downlink_codec=fp32.
/// @param run_id, step     those of all messages
/// @param messages, bytes  [num_messages] one of each worker, in any order
/// @param mean             [n] out: one array for each tensor of the layout, in order; hold anything after a failure
/// @returns TG_COMMUNICATION as tg_message_decode, and for workers that encoded with different scalers though their
/// codec shares them; TG_NONFINITE if a mean overflows
TG_API tg_status tg_aggregate(const tg_plan* plan, uint64_t run_id, uint64_t step, const uint8_t* const* messages,
                              const int64_t* bytes, int32_t num_messages, const tg_array* mean, int32_t n,
                              const tg_stream* stream);

// ---- Communicators: the processes of an exchange

/// The messages that a callback of tg_communicator_ops receives.
typedef struct tg_incoming tg_incoming;
/// Room for the message of the next rank, in order from rank 0 on. @returns [bytes] at a multiple of 8, to be filled
/// before the callback returns; NULL if there is none, with tg_last_error
TG_API uint8_t* tg_incoming_add(tg_incoming* incoming, int64_t bytes);

/// Collective operations over a transport of the caller's. All ranks call the same ones in the same order. Each
/// returns 0, or another number if it fails, which ends the call that needed it with TG_CALLBACK. Pointers are valid
/// until a callback returns.
typedef struct tg_communicator_ops {
  uint32_t struct_size;
  int32_t rank;  // of this process
  int32_t size;  // how many there are
  int32_t reserved;
  void* self;  // of the caller's: the first argument of all
  /// Every rank gets every rank's message, its own too: tg_incoming_add for each. They differ in size.
  int (*all_gather)(void* self, const uint8_t* message, int64_t bytes, tg_incoming* all);
  /// Rank r gets what each rank has for it. @param messages, bytes  [size], one for each rank
  int (*all_to_all)(void* self, const uint8_t* const* messages, const int64_t* bytes, tg_incoming* incoming);
  /// Element-wise sum over ranks, modulo 2^64, in place.
  int (*all_reduce_sum)(void* self, uint64_t* values, int64_t n);
  /// Element-wise maximum over ranks, in place.
  int (*all_reduce_max)(void* self, uint32_t* values, int64_t n);
  /// Called once, when neither the communicator nor an exchange of it is left; may be NULL.
  void (*release)(void* self);
} tg_communicator_ops;

typedef struct tg_communicator tg_communicator;
/// This process alone.
TG_API tg_status tg_communicator_self(tg_communicator** out);
/// @param ops  copied. If this fails, release is not called
TG_API tg_status tg_communicator_custom(const tg_communicator_ops* ops, tg_communicator** out);
TG_API void tg_communicator_destroy(tg_communicator* communicator);

// ---- Exchanges: the mean of all workers' gradients

/// Workers are spread over the ranks of a communicator in contiguous ranges. All ranks do the same: plans, options,
/// steps and parts are equal. Exchanges of one communicator serve one thread at a time together.
typedef struct tg_exchange tg_exchange;
/// @param communicator  NULL: this process alone
/// @param options
/// - algorithm=auto|all_gather|scatter_reduce|integer_sum: auto, the default, moves the fewest bytes
/// - downlink_codec=fp32|bf16|sums|ternary|sparse: how the mean travels back; fp32 by default
/// - on_nonfinite=stop|skip|zero: of NaN and infinity in a gradient, and of means that overflow. stop, the default:
///   tg_exchange_finish fails; skip: the step is to be dropped (tg_report.skipped); zero: such tensors count as zeros
/// - memory=SPEC: what workers keep, none, ef[:decay=NUMBER], momentum[:decay=NUMBER] or
/// dgc[:momentum=NUMBER,nesterov=true]; that of
///   the plan by default
/// - seed=NUMBER: of the draws; 1 by default
/// - run_id=NUMBER: messages of other runs are refused; 0 by default
/// @param stream  how many threads it uses
TG_API tg_status tg_exchange_create(const tg_plan* plan, const tg_communicator* communicator, const char* options,
                                    const tg_stream* stream, tg_exchange** out);
TG_API void tg_exchange_destroy(tg_exchange* exchange);

typedef struct tg_exchange_info {
  uint32_t struct_size;
  int32_t num_workers;
  int32_t first_local_worker;  // of this rank
  int32_t num_local_workers;
  uint64_t fingerprint;  // of the plan
  const char* memory;    // what workers keep, with all values. Valid as long as the exchange
} tg_exchange_info;
TG_API tg_status tg_exchange_get_info(const tg_exchange* exchange, tg_exchange_info* out);

/// What a part, or all parts of a step, did. Bytes are those of messages over the links of this rank's workers, each
/// counted as its own process (docs/measuring.md).
typedef struct tg_report {
  uint32_t struct_size;
  int32_t skipped;                           // 1: the step is to be dropped, on all ranks
  int64_t sent_bytes, received_bytes;        // of all legs
  int64_t scalers_sent, scalers_received;    // sharing of scalers
  int64_t gradient_sent, gradient_received;  // encoded gradients
  int64_t mean_sent, mean_received;          // the mean on its way back
  double measure_seconds, encode_seconds, wire_seconds, decode_seconds;
  const char* nonfinite;  // which tensor of which worker was not finite, or "". Valid until the next report
} tg_report;

/// Begins a step, whatever became of the one before.
TG_API tg_status tg_exchange_begin(tg_exchange* exchange, uint64_t step);
/// Exchanges some tensors of the step, none of them twice. What the parts are changes no bit. After a failure other
/// than TG_INVALID_ARGUMENT another step has to begin.
/// @param tensors    [n] their numbers in the layout, in any order; n is at least 1
/// @param gradients  [local workers][n], all n of the first local worker first; each worker's of one type
/// @param mean       [n] out; may be the gradients of a local worker. Holds anything where `nonfinite` names a tensor,
///                   unless with on_nonfinite=zero
/// @param report     out: of this part; may be NULL
TG_API tg_status tg_exchange_part(tg_exchange* exchange, const int32_t* tensors, int32_t n, const tg_array* gradients,
                                  const tg_array* mean, tg_report* report);
/// Ends the step. What workers keep changes now. @param report  out: of all parts; may be NULL
/// @returns TG_NONFINITE, naming tensor, worker and step, with on_nonfinite=stop; workers then keep what they had
TG_API tg_status tg_exchange_finish(tg_exchange* exchange, tg_report* report);
/// What a local worker sent of a tensor in the last step that was finished.
/// @param scaler  out: the largest that its codes are multiples of, 0 if it was sent as numbers; may be NULL
TG_API tg_status tg_exchange_decode_local(tg_exchange* exchange, int32_t worker, int32_t tensor, const tg_array* out,
                                          float* scaler);

/// What a worker keeps of a tensor; with memory=dgc the name of a velocity has "/velocity" behind the tensor's.
typedef struct tg_named_array {
  const char* name;
  int32_t worker;  // -1: of no worker, equal on all ranks, as factors of powersgd are
  int32_t reserved;
  tg_array values;  // TG_FP32
} tg_named_array;
/// @returns 0, or another number to end with TG_CALLBACK
typedef int (*tg_state_visitor)(void* self, const tg_named_array* state);
/// Shows everything that this rank's workers keep from step to step, worker after worker, then what all ranks have
/// alike: with the fingerprint and the memory of tg_exchange_info, what a checkpoint has to hold. Between steps.
/// @param visitor  pointers that it gets are valid until it returns; it must not use the exchange
TG_API tg_status tg_exchange_state(tg_exchange* exchange, tg_state_visitor visitor, void* self);
/// Restores that.
/// @param fingerprint, memory  of the exchange whose state it is
/// @param states               [n] all that tg_exchange_state shows, in any order, and perhaps those of other ranks
/// (what
///                             ranks have alike is then there several times)
/// @returns TG_INVALID_ARGUMENT, naming what is missing, given twice, unknown, or of another size, memory or
/// fingerprint; nothing is restored then
TG_API tg_status tg_exchange_restore(tg_exchange* exchange, uint64_t fingerprint, const char* memory,
                                     const tg_named_array* states, int32_t n);

// ---- Analysis of one tensor

typedef struct tg_statistics_out {
  uint32_t struct_size;
  int32_t finite;  // 1: no element is NaN or infinite. Else what follows, count aside, means little
  int64_t count;
  double mean;
  double standard_deviation;  // of the population
  double max_abs;
  double l1;  // sum |g|
  double l2;  // Euclidean norm
} tg_statistics_out;
TG_API tg_status tg_statistics(const tg_array* tensor, tg_statistics_out* out, const tg_stream* stream);

typedef struct tg_telemetry_out {
  uint32_t struct_size;
  int32_t reserved;
  double norm;                // |g|, Euclidean
  double max_abs;             // largest |g|
  double zero_fraction;       // elements sent as 0
  double clip_fraction;       // elements with |g| > scaler
  double kept_norm;           // |clip(g, scaler)| / |g|
  double clip_angle_degrees;  // between g and clip(g, scaler)
  double snr_db;              // 10 log10(|g|^2 / |g - sent|^2); infinite if nothing was lost
  double error_norm;          // |g - sent|
} tg_telemetry_out;
/// What compression did to a tensor.
/// @param gradient, sent  TG_FP32, of one size: g, and what its message says
/// @param scaler          0: nothing counts as clipped
TG_API tg_status tg_telemetry(const tg_array* gradient, const tg_array* sent, float scaler, tg_telemetry_out* out);

/// Ternary codes: sign(g) with probability |g| / s, else 0. They are those of messages of the same seed, step, worker
/// and draw_offset (tg_tensor_plan).
/// @param clip_factor  c of s = min(max|g|, c standard deviations), or 0 for max|g|; looked at if scaler is NULL
/// @param scaler       s, or NULL
/// @param codes        out: [tensor->count] -1, 0 or 1
/// @param used         out: s; may be NULL
/// @returns TG_INVALID_ARGUMENT also for a tensor that is not finite
TG_API tg_status tg_ternarize(const tg_array* tensor, double clip_factor, const float* scaler, uint64_t seed,
                              uint64_t step, uint32_t worker, int64_t draw_offset, int8_t* codes, float* used,
                              const tg_stream* stream);

#ifdef __cplusplus
}
#endif

#endif  // TERNGRAD_H
