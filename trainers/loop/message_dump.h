// MessageDump: writes the messages of a run's first steps to files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "compress/exchange/bucket_plan.h"

namespace terngrad {

class CodecPlan;
class CompressedAllReduce;
class Layout;

/// Throws unless `folder` is empty or missing, so that the files of two runs are never mixed.
/// @throws UsageError that names --dump_messages
void check_dump_folder(const std::filesystem::path& folder);

/// Writes the messages that a process sends (docs/wire-format.md) to a folder, byte for byte:
///
///   step-<step>-rank-<rank>-<number>-<kind>-worker-<worker>.msg
///
/// Step, kind and worker are those in the message (in a mean, worker is the shard number); <number> counts the messages
/// of a step and process. All processes may share one folder. The file layout.json holds the number of workers and, by
/// the layout fingerprint in the messages, the tensors of each bucket with their codecs and options texts.
class MessageDump {
 public:
  /// @param folder     created when the first message is written
  /// @param num_steps  number of steps to write, counted from the first message's step
  MessageDump(std::filesystem::path folder, int rank, int num_workers, std::uint64_t num_steps);

  /// Registers the tensors and codecs of all messages of an exchange in these parts. Call it before the first message.
  /// @throws UsageError if it sends no messages because --exchange auto is integer_sum
  void add_layouts(CompressedAllReduce& exchange, const Buckets& parts);
  /// The same of messages with this fingerprint.
  void add_layout(std::uint64_t fingerprint, const Layout& layout, const CodecPlan& plan);

  /// Writes a message if it belongs to one of the first num_steps steps.
  /// @param message  8-byte aligned
  /// @throws DataError if the file cannot be written, CommunicationError if `message` is not a valid message
  void write(std::span<const std::uint8_t> message);

 private:
  void write_layouts() const;

  std::filesystem::path folder_;
  int rank_;
  int num_workers_;
  std::uint64_t num_steps_;
  nlohmann::ordered_json layouts_ = nlohmann::ordered_json::object();  // {fingerprint: tensors}
  std::optional<std::uint64_t> first_step_;
  std::uint64_t step_ = 0;  // step of the last message
  int number_ = 0;          // number of the next message in this step
};

}  // namespace terngrad
