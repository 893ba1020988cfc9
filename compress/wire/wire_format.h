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

/// Kind of a message, in its header.
enum class MessageKind : std::uint16_t {
  kScalers = 1,   // a worker's local scalers
  kGradient = 2,  // a worker's encoded gradient, or a shard of it
  kMean = 3,      // an aggregated shard on the downlink
  // Asynchronous training with a parameter server (compress/wire/push_messages.h):
  kPull = 4,        // a worker asks for parameters; the server answers with the worker's next push number
  kPush = 5,        // PushMetadata, sent with a gradient
  kState = 6,       // state of a worker's net, such as batch norm statistics
  kParameters = 7,  // the server's parameters after some number of updates
  kStop = 8,        // the server's answer to messages after the end of the run
  kLeave = 9,       // a process has finished its workers
  // Exchanges between processes with several workers (compress/wire/gradient_transport.h):
  kPartialSum = 10,  // sum of the gradients of a subtree of workers, or a shard of it
};

/// Header fields that a message must match to be accepted.
struct MessageContext {
  std::uint64_t run_id = 0;       // drawn by the chief at start, the same on all ranks
  std::uint64_t fingerprint = 0;  // CodecPlan::fingerprint
  std::uint64_t step = 0;
  std::optional<std::uint64_t> seed = {};  // seed of the run's draws, for codecs that rotate; not sent in messages
};

/// Writes one message into a buffer that is reused from step to step. Little-endian layout:
///   header   64 bytes
///   records  48 bytes for each slice: segment, codec, format, first, count, offset, bytes, number of scalers
///   payload  for each record at a multiple of 8: its scalers (float32), zeros up to a multiple of 8, its codes
/// The header holds a CRC32C of the payload and, last, one of the header before it and the records.
class MessageWriter {
 public:
  /// Begins a message. @param max_bytes  upper bound on its size, see max_message_bytes
  void begin(MessageKind kind, const MessageContext& context, int worker, std::size_t num_records,
             std::int64_t max_bytes);
  /// Begins a message in the caller's storage, which must be 8-byte aligned and large enough.
  void begin_in(std::span<std::uint8_t> storage, MessageKind kind, const MessageContext& context, int worker,
                std::size_t num_records);
  /// Adds a slice and returns where its codes go: `max_bytes` bytes, 8-byte aligned, valid until finish.
  std::uint8_t* add(const Slice& slice, std::uint8_t codec, std::uint8_t format, std::span<const float> scalers,
                    std::int64_t max_bytes);
  /// Sets the actual number of bytes of slice `index`, at most its max_bytes, which is the default.
  void set_bytes(std::size_t index, std::int64_t bytes);
  /// Appends bytes to the payload of a message without records; max_bytes limits their number.
  void add_bytes(std::span<const std::uint8_t> bytes);
  /// Closes gaps between slices, and fills in lengths and checksums. Valid until the next begin, or as long as the
  /// caller's storage.
  std::span<const std::uint8_t> finish();

 private:
  std::vector<std::uint64_t> words_;  // 8-byte aligned storage, kept from message to message
  std::span<std::uint8_t> storage_;   // current message: words_, or the caller's storage
  std::size_t bytes_ = 0;             // bytes used
  std::size_t record_ = 0;
  std::size_t num_records_ = 0;
  std::uint8_t* data() { return storage_.data(); }
  std::uint8_t* place_of(std::size_t record) { return data() + kWireHeaderBytes + record * kWireRecordBytes; }
};

/// Upper bound on a message's size: header, records, and each slice's scalers and codes.
std::int64_t max_message_bytes(std::size_t num_records, std::int64_t num_scalers, std::int64_t payload_bytes);

/// Computes the size of a message from its records, as MessageWriter lays it out.
class MessageSize {
 public:
  explicit MessageSize(std::size_t num_records);
  /// Adds the next record, with its numbers of scalers and of bytes of codes.
  void add(std::int64_t num_scalers, std::int64_t bytes);
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_;
};

/// A parsed message; views into its bytes.
struct Message {
  MessageKind kind = MessageKind::kGradient;
  int worker = 0;
  struct Record {
    std::uint8_t codec = 0;
    EncodedSlice encoded;
  };
  std::vector<Record> records;
  std::span<const std::uint8_t> payload;  // the whole payload
};

/// Identity of a message, for readers that do not know its sender beforehand. Only magic and version are checked;
/// read_message with the same step verifies the rest.
struct MessageLabel {
  MessageKind kind = MessageKind::kGradient;
  std::uint64_t step = 0;
  std::uint32_t worker = 0;
};

/// @param bytes  any alignment. @throws CommunicationError if they are shorter than a header, or magic or version
///               differ
MessageLabel read_label(std::span<const std::uint8_t> bytes);

/// Structure of a message, for readers without layout and plan.
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
    std::uint64_t scalers_at = 0;  // byte offset in the message
    std::uint64_t codes_at = 0;    // likewise
    std::uint64_t bytes = 0;       // size of the codes
  };
  std::vector<Record> records;
};

/// Outlines a message of any kind. Checks lengths, both checksums and the bounds of every record, but not run, step,
/// segments or elements. Never reads past the end.
/// @param bytes  any alignment. @throws CommunicationError as read_message
MessageOutline outline_message(std::span<const std::uint8_t> bytes);

/// Parses a message. Every field is checked before it is used: magic, version, kind, run, fingerprint, step, lengths,
/// both checksums, and for each record its segment, range, alignment and bounds against `layout`. Never reads past the
/// end.
/// @param bytes    8-byte aligned
/// @param message  out; its storage is reused
/// @throws CommunicationError naming the field, the expected and the actual value
void read_message(std::span<const std::uint8_t> bytes, MessageKind kind, const MessageContext& context,
                  const Layout& layout, Message& message);

}  // namespace terngrad
