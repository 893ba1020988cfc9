// MessageDump: the messages of a run's first steps, as files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

namespace terngrad {

class CodecPlan;
class Layout;

/// Throws unless `folder` is empty or not there, so that files of two runs are never taken for one's.
/// @throws UsageError that names --dump_messages
void check_dump_folder(const std::filesystem::path& folder);

/// Writes the messages that a process of a run sends (docs/wire-format.md) to a folder, each byte as it travels:
///
///   step-<step>-rank-<rank>-<number>-<kind>-worker-<worker>.msg
///
/// with step, kind and worker as the message has them (of a mean: the number of the shard), and messages of a step and
/// process numbered as they were sent. All processes may have one folder. Beside them layout.json has what messages do
/// not repeat: the number of workers, and by the fingerprint that messages carry the tensors of each bucket with their
/// codecs and options texts.
class MessageDump {
 public:
  /// @param folder     created when the first message is written
  /// @param num_steps  of which messages are written, from the first one that is seen on
  MessageDump(std::filesystem::path folder, int rank, int num_workers, std::uint64_t num_steps);

  /// Messages with this fingerprint are of these tensors, in the plan's codecs. Before the first message.
  void add_layout(std::uint64_t fingerprint, const Layout& layout, const CodecPlan& plan);

  /// Writes a message if it is of one of the first steps.
  /// @param message  8-byte aligned
  /// @throws DataError if the file cannot be written, CommunicationError for what is no message
  void write(std::span<const std::uint8_t> message);

 private:
  void write_layouts() const;

  std::filesystem::path folder_;
  int rank_;
  int num_workers_;
  std::uint64_t num_steps_;
  nlohmann::ordered_json layouts_ = nlohmann::ordered_json::object();  // {fingerprint: tensors}
  std::optional<std::uint64_t> first_step_;
  std::uint64_t step_ = 0;  // of the last message
  int number_ = 0;          // of the next message of this step
};

}  // namespace terngrad
