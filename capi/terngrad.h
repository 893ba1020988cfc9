// terngrad: compressed gradients, for any language that calls C. C99, and valid C++98. docs/c-api.md is the guide.
//
// - Errors: functions that can fail return a tg_status, TG_OK on success; tg_last_error() describes the error. A call
//   that fails leaves its outputs unchanged, unless its description says otherwise. No exception leaves the library.
// - Handles: tg_X_create creates one, tg_X_destroy destroys it (NULL is allowed). A handle keeps alive the objects that
//   it was made from, so handles may be destroyed in any order. Handles do not survive fork.
// - Threads: different handles may be used concurrently. One handle serves one thread at a time, except that functions
//   that take it as const may be called concurrently. Callbacks run on the calling thread.
// - Memory: arrays belong to the caller, are used during the call and never kept. Strings are UTF-8, and copied.
//   Returned memory belongs to the handle; the function's description says how long it is valid.
// - Structs that begin with struct_size may grow: set that to the struct's sizeof. The library fills in what fits.
// - Options are text: KEY=VALUE, separated by blanks; NULL or "" for the defaults. For an unknown or repeated key the
//   error names it and the accepted keys.
// - Sizes are numbers of elements or bytes. Workers, ranks, tensors and steps are counted from 0; steps are below 2^40.
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
  TG_INVALID_ARGUMENT = 1,  // an argument or option violates the function's description
  TG_NOT_SUPPORTED = 2,     // this build or machine lacks the feature
  TG_DATA = 3,              // data are damaged or of another kind than expected
  TG_COMMUNICATION = 4,     // a message is damaged, belongs to another run, or does not arrive
  TG_NONFINITE = 5,         // a gradient holds NaN or infinity, or a mean overflows
  TG_DEVICE = 6,            // a call to a device's runtime failed
  TG_OUT_OF_MEMORY = 7,
  TG_CALLBACK = 8,  // a callback of the caller failed
  TG_INTERNAL = 9   // a bug in the library
};

/// Grows when functions are added. Within a SONAME, libterngrad.so.0, none is changed or removed.
#define TG_ABI_VERSION 1
/// TG_ABI_VERSION of the loaded library.
TG_API uint32_t tg_abi_version(void);
/// Version, commit and threading runtime: "0.1.0 f4d22258764d threads=openmp".
TG_API const char* tg_version(void);
/// Error message of the last failed call in this thread, one line; "" before the first. Valid until the next failure.
TG_API const char* tg_last_error(void);
/// "TG_OK", "TG_INVALID_ARGUMENT", ...; "unknown" for another number.
TG_API const char* tg_status_name(tg_status status);

// ---- Arrays and threads

enum { TG_FP32 = 0, TG_BF16 = 1, TG_FP16 = 2 };  // tg_array.type
enum { TG_CPU = 1 };                             // tg_array.device_type, as DLPack numbers devices
enum { TG_READ_ONLY = 1 };                       // tg_array.flags

/// Elements in row-major order, compact and aligned to their size. Functions take arrays in the memory of the CPU
/// (device_type TG_CPU, device_id 0). Output arrays must be TG_FP32 and not TG_READ_ONLY, and the output arrays of one
/// call must not overlap. Without elements `data` may be NULL.
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
/// The memory of a DLPack tensor as an array. Its deleter is never called: the tensor must outlive the array's use.
/// Tensors on any device are converted, but other functions reject arrays that are not on the CPU.
/// @returns TG_INVALID_ARGUMENT for strides that are not compact, other types than fp32, bf16 and fp16, and misaligned
/// memory; TG_NOT_SUPPORTED for versions of DLPack other than 1.x
TG_API tg_status tg_array_from_dlpack(const struct DLManagedTensorVersioned* tensor, tg_array* out);
/// The same for the legacy struct, which has no version and no read-only flag.
TG_API tg_status tg_array_from_dlpack_legacy(const struct DLManagedTensor* tensor, tg_array* out);

/// Threads that run the work. NULL: the calling thread only. Results do not depend on it.
typedef struct tg_stream tg_stream;
/// CPU threads. @param num_threads  maximum number of threads, the calling one included: at least 1
TG_API tg_status tg_stream_cpu(int32_t num_threads, tg_stream** out);
TG_API void tg_stream_destroy(tg_stream* stream);

// ---- Layouts: the tensors of a gradient

/// A list of tensors: all workers have the same, in the same order.
typedef struct tg_layout tg_layout;
TG_API tg_status tg_layout_create(tg_layout** out);
TG_API void tg_layout_destroy(tg_layout* layout);
enum { TG_IS_LOGITS = 1 };  // weights or biases of the last layer: see the option quantize_logits
/// Adds a tensor.
/// @param name   not empty, unique in the layout. Names decide codecs (codec_for)
/// @param shape  [dims] sizes, in row-major order; may be NULL if dims is 0, which is a single element
/// @param flags  0 or TG_IS_LOGITS
/// @param index  out: index of the tensor; may be NULL
TG_API tg_status tg_layout_add(tg_layout* layout, const char* name, const int64_t* shape, int32_t dims, uint32_t flags,
                               int32_t* index);
/// Hash of names, shapes and flags in order.
TG_API tg_status tg_layout_fingerprint(const tg_layout* layout, uint64_t* out);

// ---- Plans: codec and message size of each tensor

/// All codecs and presets as JSON: {"codecs": [{"name", "summary", "source", "bits_per_element": [numbers],
/// "varying_by": [words], "most_bits", "unbiased", "summable", "sums_as_float", "runs_on_gpus", "keys": [{"name",
/// "default", "accepted", "meaning"}]}], "presets": [{"name", "summary", "spec", "memory"}]}. "unbiased" and
/// "summable" are {"by_default": boolean, "changed_by": [words]}.
/// @param text    out: [capacity], zero-terminated; may be NULL if capacity is 0
/// @param needed  out: required capacity in bytes, the zero included; may be NULL
/// @returns TG_INVALID_ARGUMENT for a capacity that is too small, except for 0. `needed` is set also then
TG_API tg_status tg_codec_list(char* text, int64_t capacity, int64_t* needed);

/// The codec of each tensor, for a number of workers. Immutable, so that threads may share it.
typedef struct tg_plan tg_plan;
/// @param layout       copied: tensors added later are not part of the plan
/// @param num_workers  number N of workers, by which means divide: from 1 to 2^24
/// @param options
/// - codec=SPEC: a codec or preset, NAME or NAME:KEY=VALUE,... (docs/codecs.md); ternary by default
/// - KEY=VALUE: further keys of that codec, as in "codec=ternary clip_factor=2.5"
/// - codec_for=PATTERN=SPEC: the codec of tensors whose names match (* any characters, ? any one, which may be blanks).
///   May be given several times; the first match applies
/// - min_elements=NUMBER: smaller tensors are sent as fp32; 1 by default
/// - quantize_logits=false|true: true sends tensors with TG_IS_LOGITS like others instead of as fp32; false by default
/// - seed=NUMBER: seed of the draws of received messages (tg_message_decode, tg_aggregate), which codecs with rotation
///   need; 1 by default
TG_API tg_status tg_plan_create(const tg_layout* layout, int32_t num_workers, const char* options, tg_plan** out);
TG_API void tg_plan_destroy(tg_plan* plan);

typedef struct tg_plan_info {
  uint32_t struct_size;
  int32_t num_workers;
  int32_t num_tensors;
  int32_t reserved;
  int64_t num_scalers;   // scalers per worker
  uint64_t fingerprint;  // hash of layout and codecs, contained in messages
  const char* memory;    // default memory: "none", "ef:decay=1", ... Valid as long as the plan
} tg_plan_info;
TG_API tg_status tg_plan_get_info(const tg_plan* plan, tg_plan_info* out);

typedef struct tg_tensor_plan {
  uint32_t struct_size;
  int32_t fixed_size;  // 1: bits_per_element is exact; 0: the maximum, plus at most 48 bits per 4,096 elements
  const char* name;    // name and codec are valid as long as the plan
  const char* codec;   // canonical spec, with all options
  int64_t num_elements;
  double bits_per_element;  // bits of the codes, without scalers and headers
  int32_t unbiased;         // 1: E[decoded] = gradient
  int32_t exact;            // 1: decoded = gradient
  int32_t summable;         // 1: workers' codes can be summed as integers
  int32_t shares_scalers;   // 1: a worker's message depends on the scalers of the others
  int64_t first_scaler;     // index of the tensor's first scaler in a worker's list
  int64_t num_scalers;
  int64_t draw_offset;  // argument for tg_ternarize
} tg_tensor_plan;
/// Describes a tensor of the plan. @param tensor  index in the layout
TG_API tg_status tg_plan_tensor(const tg_plan* plan, int32_t tensor, tg_tensor_plan* out);

// ---- Messages by hand (docs/wire-format.md)

/// Encodes one worker's gradients as messages: measure, exchange scalers if the codec shares them, encode.
typedef struct tg_encoder tg_encoder;
/// @param worker   number of the worker, below the plan's num_workers
/// @param options
/// - seed=NUMBER: seed of the draws; the plan's by default
/// - run_id=NUMBER: run id in messages; 0 by default
/// - on_nonfinite=stop|zero: on NaN or infinity fail, or send the tensor as zeros; stop by default
TG_API tg_status tg_encoder_create(const tg_plan* plan, int32_t worker, const char* options, tg_encoder** out);
TG_API void tg_encoder_destroy(tg_encoder* encoder);
/// Measures the scalers of a gradient. Discards scalers set for other workers.
/// @param gradient  [n] one array for each tensor of the layout, in order, all of one type
/// @param step      keys the draws; contained in messages
/// @returns TG_NONFINITE if a tensor holds NaN or infinity. With on_nonfinite=zero it is sent as zeros instead
TG_API tg_status tg_encoder_measure(tg_encoder* encoder, const tg_array* gradient, int32_t n, uint64_t step,
                                    const tg_stream* stream);
/// The measured scalers, to be sent to the other workers. @param out  [n], n being tg_plan_info.num_scalers; NaN marks
/// a tensor that is not finite
TG_API tg_status tg_encoder_scalers(const tg_encoder* encoder, float* out, int64_t n);
/// Sets the scalers that another worker measured in this step. If any codec of the plan shares scalers, those of all
/// other workers are needed before tg_encoder_encode. @returns TG_NONFINITE for NaN, unless on_nonfinite=zero
TG_API tg_status tg_encoder_set_scalers(tg_encoder* encoder, int32_t worker, const float* scalers, int64_t n);
/// Encodes the measured gradient.
/// @param gradient        [n] arrays with the same elements as measured
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
/// One slice of a tensor in a message. Positions are bytes from the message's start.
typedef struct tg_record_info {
  uint32_t tensor;
  uint32_t codec;   // codec number of docs/wire-format.md
  uint32_t format;  // format number of the codes, likewise
  uint32_t num_scalers;
  uint64_t first;       // first element of the tensor
  uint64_t count;       // number of elements
  uint64_t scalers_at;  // position of the scalers
  uint64_t codes_at;    // position of the codes
  uint64_t codes_bytes;
} tg_record_info;
/// Parses header and records of a message of any kind, without a plan. Checks lengths, bounds and checksums only.
/// @param message   [bytes] at any address
/// @param records   out: [capacity]; may be NULL if capacity is 0, which fills in `info` only
/// @returns TG_COMMUNICATION if it is damaged or not a message; TG_INVALID_ARGUMENT for a capacity other than 0 that is
/// too small, with `info` filled in
TG_API tg_status tg_message_inspect(const uint8_t* message, int64_t bytes, tg_message_info* info,
                                    tg_record_info* records, int32_t capacity);
/// Decodes a worker's gradient.
/// @param run_id, step  expected values of the message
/// @param message       [bytes] at any address
/// @param out           [n] one array for each tensor of the layout, in order
/// @param worker        out: the sender; may be NULL
/// @returns TG_COMMUNICATION if it is damaged, or has another run, step, layout or codec; checked before `out` is
/// written
TG_API tg_status tg_message_decode(const tg_plan* plan, uint64_t run_id, uint64_t step, const uint8_t* message,
                                   int64_t bytes, const tg_array* out, int32_t n, int32_t* worker,
                                   const tg_stream* stream);
/// The mean of the gradients in messages: bit-identical to that of an exchange between all workers of the plan with
/// on_nonfinite=zero and downlink_codec=fp32.
/// @param run_id, step     expected values of all messages
/// @param messages, bytes  [num_messages] one message of each worker, in any order
/// @param mean             [n] out: one array for each tensor of the layout, in order; unspecified after a failure
/// @returns TG_COMMUNICATION as tg_message_decode, and for workers that encoded with different scalers although their
/// codec shares them; TG_NONFINITE if a mean overflows
TG_API tg_status tg_aggregate(const tg_plan* plan, uint64_t run_id, uint64_t step, const uint8_t* const* messages,
                              const int64_t* bytes, int32_t num_messages, const tg_array* mean, int32_t n,
                              const tg_stream* stream);

// ---- Communicators: the processes of an exchange

/// The messages that a callback of tg_communicator_ops receives.
typedef struct tg_incoming tg_incoming;
/// Allocates a buffer for the message of the next rank, in order from rank 0. @returns [bytes], 8-byte aligned, to be
/// filled before the callback returns; NULL on failure, see tg_last_error
TG_API uint8_t* tg_incoming_add(tg_incoming* incoming, int64_t bytes);

/// Collective operations over a transport of the caller. All ranks call the same ones in the same order. Each returns
/// 0, or another number on failure, on which the calling function fails with TG_CALLBACK. Pointers are valid until the
/// callback returns.
typedef struct tg_communicator_ops {
  uint32_t struct_size;
  int32_t rank;  // rank of this process
  int32_t size;  // number of ranks
  int32_t reserved;
  void* self;  // first argument of all callbacks
  /// All-gather: every rank gets the messages of all ranks, its own too, by one tg_incoming_add each. Sizes may differ.
  int (*all_gather)(void* self, const uint8_t* message, int64_t bytes, tg_incoming* all);
  /// All-to-all: rank r gets message r of every rank. @param messages, bytes  [size], one for each rank
  int (*all_to_all)(void* self, const uint8_t* const* messages, const int64_t* bytes, tg_incoming* incoming);
  /// Element-wise sum over ranks, modulo 2^64, in place.
  int (*all_reduce_sum)(void* self, uint64_t* values, int64_t n);
  /// Element-wise maximum over ranks, in place.
  int (*all_reduce_max)(void* self, uint32_t* values, int64_t n);
  /// Called once, after the communicator and all its exchanges are destroyed; may be NULL.
  void (*release)(void* self);
} tg_communicator_ops;

typedef struct tg_communicator tg_communicator;
/// A communicator of this process only.
TG_API tg_status tg_communicator_self(tg_communicator** out);
/// A communicator over `ops`, which is copied. On failure ops->release is not called.
TG_API tg_status tg_communicator_custom(const tg_communicator_ops* ops, tg_communicator** out);
TG_API void tg_communicator_destroy(tg_communicator* communicator);

// ---- Exchanges: the mean of all workers' gradients

/// Each rank of the communicator has a contiguous range of workers. All ranks must use equal plans, options, steps and
/// parts. Only one thread at a time may use the exchanges of one communicator.
typedef struct tg_exchange tg_exchange;
/// @param communicator  NULL: this process only
/// @param options
/// - algorithm=auto|all_gather|scatter_reduce|integer_sum: auto, the default, moves the fewest bytes
/// - downlink_codec=fp32|bf16|sums|ternary|sparse: codec of the mean; fp32 by default
/// - on_nonfinite=stop|skip|zero: on NaN or infinity in a gradient, or a mean that overflows. stop, the default:
///   tg_exchange_finish fails; skip: the step is to be dropped (tg_report.skipped); zero: such tensors count as zeros
/// - memory=SPEC: none, ef[:decay=NUMBER], momentum[:decay=NUMBER], dgc[:momentum=NUMBER,nesterov=true],
///   loco[:decay=NUMBER,reset=STEPS] or ef21[:decay=NUMBER]; the plan's by default
/// - seed=NUMBER: seed of the draws; 1 by default
/// - run_id=NUMBER: messages with another run id are rejected; 0 by default
/// @param stream  threads that the exchange uses
TG_API tg_status tg_exchange_create(const tg_plan* plan, const tg_communicator* communicator, const char* options,
                                    const tg_stream* stream, tg_exchange** out);
TG_API void tg_exchange_destroy(tg_exchange* exchange);

typedef struct tg_exchange_info {
  uint32_t struct_size;
  int32_t num_workers;
  int32_t first_local_worker;  // this rank's first worker
  int32_t num_local_workers;
  uint64_t fingerprint;  // the plan's
  const char* memory;    // canonical spec of the workers' memory. Valid as long as the exchange
} tg_exchange_info;
TG_API tg_status tg_exchange_get_info(const tg_exchange* exchange, tg_exchange_info* out);

/// Bytes, times and status of a part or of a step. Bytes are those of messages over the links of this rank's workers,
/// counting each worker as a process of its own (docs/measuring.md).
typedef struct tg_report {
  uint32_t struct_size;
  int32_t skipped;                           // 1: all ranks must drop the step
  int64_t sent_bytes, received_bytes;        // totals
  int64_t scalers_sent, scalers_received;    // shared scalers
  int64_t gradient_sent, gradient_received;  // encoded gradients (uplink)
  int64_t mean_sent, mean_received;          // the mean (downlink)
  double measure_seconds, encode_seconds, wire_seconds, decode_seconds;
  const char* nonfinite;  // tensor and worker that were not finite, or "". Valid until the next report
} tg_report;

/// Begins a step, also after one that failed or was not finished.
/// @param step  keys the draws, and counts steps for codecs and memories that change with them
TG_API tg_status tg_exchange_begin(tg_exchange* exchange, uint64_t step);
/// Exchanges some tensors of the step, each at most once. The choice of parts changes no bit. After a failure other
/// than TG_INVALID_ARGUMENT another step has to begin.
/// @param tensors    [n] indices in the layout, in any order; n is at least 1
/// @param gradients  [local workers][n], all n of the first local worker first; each worker's of one type
/// @param mean       [n] out; may be the gradients of a local worker. Unspecified where `nonfinite` names a tensor,
///                   except with on_nonfinite=zero
/// @param report     out: report of this part; may be NULL
TG_API tg_status tg_exchange_part(tg_exchange* exchange, const int32_t* tensors, int32_t n, const tg_array* gradients,
                                  const tg_array* mean, tg_report* report);
/// Ends the step and updates the workers' memory. @param report  out: report of all parts; may be NULL
/// @returns TG_NONFINITE, naming tensor, worker and step, with on_nonfinite=stop; the memory then stays unchanged
TG_API tg_status tg_exchange_finish(tg_exchange* exchange, tg_report* report);
/// Decodes a tensor of a local worker's message in the last finished step.
/// @param scaler  out: the largest scaler, 0 if the tensor was sent as floats; may be NULL
TG_API tg_status tg_exchange_decode_local(tg_exchange* exchange, int32_t worker, int32_t tensor, const tg_array* out,
                                          float* scaler);

/// An array of a worker's memory, named like its tensor; with memory=dgc or ef21 velocities have "/velocity" appended.
/// With memory=loco it is [blocks, 17]: the bits of codes and a scale, not numbers (docs/options.md).
typedef struct tg_named_array {
  const char* name;
  int32_t worker;  // -1: shared state, equal on all ranks (PowerSGD factors; with memory=ef21 the mean of estimates)
  int32_t reserved;
  tg_array values;  // TG_FP32
} tg_named_array;
/// @returns 0, or another number to stop with TG_CALLBACK
typedef int (*tg_state_visitor)(void* self, const tg_named_array* state);
/// Visits all state arrays, which a checkpoint must save with the fingerprint and memory of tg_exchange_info: first the
/// memory of this rank's workers, worker after worker, then shared state. Call it between steps.
/// @param visitor  its arguments are valid until it returns; it must not use the exchange
TG_API tg_status tg_exchange_state(tg_exchange* exchange, tg_state_visitor visitor, void* self);
/// Restores the state that tg_exchange_state visits.
/// @param fingerprint, memory  tg_exchange_info of the saved exchange
/// @param states               [n] all arrays of tg_exchange_state, in any order, optionally also those of other ranks
///                             (shared state may then occur several times)
/// @returns TG_INVALID_ARGUMENT, naming the array that is missing, repeated, unknown, or has another size, memory or
/// fingerprint; nothing is restored then
TG_API tg_status tg_exchange_restore(tg_exchange* exchange, uint64_t fingerprint, const char* memory,
                                     const tg_named_array* states, int32_t n);

// ---- Analysis of one tensor

typedef struct tg_statistics_out {
  uint32_t struct_size;
  int32_t finite;  // 1: no element is NaN or infinite; 0: the fields below, except count, are meaningless
  int64_t count;
  double mean;
  double standard_deviation;  // population
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
  double clip_angle_degrees;  // angle between g and clip(g, scaler)
  double snr_db;              // 10 log10(|g|^2 / |g - sent|^2); infinite if lossless
  double error_norm;          // |g - sent|
} tg_telemetry_out;
/// Compares a tensor with its decoded message.
/// @param gradient, sent  TG_FP32, of one size: g and its decoded message
/// @param scaler          0: no element counts as clipped
TG_API tg_status tg_telemetry(const tg_array* gradient, const tg_array* sent, float scaler, tg_telemetry_out* out);

/// Ternary codes: sign(g) with probability |g| / s, else 0. Equal to the codes in messages with the same seed, step,
/// worker and draw_offset (tg_tensor_plan).
/// @param clip_factor  c of s = min(max|g|, c standard deviations), or 0 for max|g|; only used if scaler is NULL
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
