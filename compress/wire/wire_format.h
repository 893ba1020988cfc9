// The wire format: messages between workers. docs/wire-format.md is the specification for other implementations.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compress/codec/codec.h"

namespace terngrad {

inline constexpr std::uint32_t kWireMagic = 0x44524754;  // "TGRD" in file order
inline constexpr std::uint16_t kWireVersion = 1;
inline constexpr std::size_t kWireHeaderBytes = 64;
inline constexpr std::size_t kWireRecordBytes = 48;

enum class MessageKind : std::uint16_t {
  kScalers = 1,   // a worker's local scalers
  kGradient = 2,  // a worker's encoded gradient, or a shard of it
  kMean = 3,      // an aggregated shard on its way back
  // Of asynchronous training with a parameter server (compress/wire/push_messages.h).
  kPull = 4,        // a worker asks for parameters; the server says where the worker continues
  kPush = 5,        // what a worker tells with a gradient
  kState = 6,       // state of a worker's net
  kParameters = 7,  // the server's, as they are after some number of updates
  kStop = 8,        // the server's answer to what comes after the end
  kLeave = 9,       // a process of workers has ended its part
  // Of exchanges between processes of several workers (compress/wire/gradient_transport.h).
  kPartialSum = 10,  // the sum of the gradients of a subtree of workers, or a shard of it
};

/// What a message must agree with to be accepted.
struct MessageContext {
  std::uint64_t run_id = 0;       // drawn by the chief at start, the same on all ranks
  std::uint64_t fingerprint = 0;  // CodecPlan::fingerprint
  std::uint64_t step = 0;
  std::optional<std::uint64_t> seed = {};  // of the run's draws, for codecs that rotate; no message has it
};

/// Writes one message into a buffer that is kept from step to step. Little-endian; reads as
///   header   64 bytes
///   records  48 bytes for each slice: segment, codec, format, first, count, offset, bytes, number of scalers
///   payload  for each record at a multiple of 8: its scalers (float32), zeros up to a multiple of 8, its codes
/// The header holds a CRC32C of the payload and, last, one of the header before it and the records.
class MessageWriter {
 public:
  /// Begins a message. @param max_bytes  upper bound on its size, from max_message_bytes
  void begin(MessageKind kind, const MessageContext& context, int worker, std::size_t num_records,
             std::int64_t max_bytes);
  /// The same in storage of the caller's: 8-byte aligned, and as long as the message may get.
  void begin_in(std::span<std::uint8_t> storage, MessageKind kind, const MessageContext& context, int worker,
                std::size_t num_records);
  /// Adds a slice and returns where its codes go: `max_bytes` bytes, 8-byte aligned, valid until finish.
  std::uint8_t* add(const Slice& slice, std::uint8_t codec, std::uint8_t format, std::span<const float> scalers,
                    std::int64_t max_bytes);
  /// States how many bytes the codes of slice `index` really took, at most its max_bytes, which is what counts
  /// otherwise.
  void set_bytes(std::size_t index, std::int64_t bytes);
  /// Adds bytes to the payload of a message that has no records, as many as max_bytes has room for.
  void add_bytes(std::span<const std::uint8_t> bytes);
  /// Moves slices together, fills in lengths and checksums. Valid until the next begin, or as long as the storage.
  std::span<const std::uint8_t> finish();

 private:
  std::vector<std::uint64_t> words_;  // 8-byte aligned storage, kept from message to message
  std::span<std::uint8_t> storage_;   // of the message: words_, or the caller's
  std::size_t bytes_ = 0;             // in use
  std::size_t record_ = 0;
  std::size_t num_records_ = 0;
  std::uint8_t* data() { return storage_.data(); }
  std::uint8_t* place_of(std::size_t record) { return data() + kWireHeaderBytes + record * kWireRecordBytes; }
};

/// Upper bound on a message's size: header, records, and each slice's scalers and codes.
std::int64_t max_message_bytes(std::size_t num_records, std::int64_t num_scalers, std::int64_t payload_bytes);

/// Adds up the size of a message, record after record, as MessageWriter lays it out.
class MessageSize {
 public:
  explicit MessageSize(std::size_t num_records);
  /// The next record, with that many scalers and bytes of codes.
  void add(std::int64_t num_scalers, std::int64_t bytes);
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_;
};

/// A message taken apart; views into its bytes.
struct Message {
  MessageKind kind = MessageKind::kGradient;
  int worker = 0;
  struct Record {
    std::uint8_t codec = 0;
    EncodedSlice encoded;
  };
  std::vector<Record> records;
  std::span<const std::uint8_t> payload;  // all of it
};

/// What a message says of itself, for readers that do not know beforehand whose it is. Nothing is checked but that it
/// begins like a message; read_message with the same step finds out whether it is true.
struct MessageLabel {
  MessageKind kind = MessageKind::kGradient;
  std::uint64_t step = 0;
  std::uint32_t worker = 0;
};

/// @param bytes  of any alignment. @throws CommunicationError for what is shorter than a header or begins otherwise
MessageLabel read_label(std::span<const std::uint8_t> bytes);

/// A message as a reader sees it who has neither layout nor plan.
struct MessageOutline {
  MessageLabel label;
  std::uint64_t run_id = 0;
  std::uint64_t fingerprint = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t num_elements = 0;
  struct Record {
    std::uint32_t segment = 0;
    std::uint8_t codec = 0;
    std::uint8_t format = 0;
    std::uint64_t first = 0, count = 0;  // elements
    std::uint32_t num_scalers = 0;
    std::uint64_t scalers_at = 0;  // from the message's start
    std::uint64_t codes_at = 0;    // likewise
    std::uint64_t bytes = 0;       // of the codes
  };
  std::vector<Record> records;
};

/// Outlines a message of any kind. Lengths, both checksums and the bounds of every record are checked; whether run,
/// step, segments and elements are what someone expects is not.
/// @param bytes  of any alignment. @throws CommunicationError as read_message. Never reads past the end
MessageOutline outline_message(std::span<const std::uint8_t> bytes);

/// Takes a message apart. Every field is checked before it is used: magic, version, kind, run, fingerprint, step,
/// lengths, both checksums, and for each record its segment, range, alignment and bounds against `layout`.
/// @param bytes    8-byte aligned
/// @param message  out; its storage is reused
/// @throws CommunicationError naming the field, what was expected and what came. Never reads past the end
void read_message(std::span<const std::uint8_t> bytes, MessageKind kind, const MessageContext& context,
                  const Layout& layout, Message& message);

}  // namespace terngrad
