#include "trainers/loop/message_dump.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/round.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"
#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/file_descriptor.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

const char* name_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::kScalers:
      return "scalers";
    case MessageKind::kGradient:
      return "gradient";
    case MessageKind::kMean:
      return "mean";
    case MessageKind::kPartialSum:
      return "sum";
    default:
      TERNGRAD_THROW(CommunicationError, "[dump] a message of kind ", static_cast<int>(kind),
                     " is none of a synchronous exchange");
  }
}

}  // namespace

void check_dump_folder(const fs::path& folder) {
  std::error_code error;
  const bool is_there = fs::exists(folder, error);
  if (!error && !is_there) return;
  if (!error && !fs::is_directory(folder)) {
    TERNGRAD_THROW(UsageError, "--dump_messages ", folder.string(), ": is not a folder");
  }
  const bool is_empty = !error && fs::is_empty(folder, error);
  if (error) TERNGRAD_THROW(UsageError, "--dump_messages ", folder.string(), ": ", error.message());
  if (!is_empty) {
    TERNGRAD_THROW(UsageError, "--dump_messages ", folder.string(),
                   ": is not empty; name a new folder, or an empty one");
  }
}

MessageDump::MessageDump(fs::path folder, int rank, int num_workers, std::uint64_t num_steps)
    : folder_(std::move(folder)), rank_(rank), num_workers_(num_workers), num_steps_(num_steps) {}

void MessageDump::add_layouts(CompressedAllReduce& exchange, const Buckets& parts) {
  for (const std::vector<int>& segments : parts) {
    for (const Round* const round : exchange.part(segments).rounds()) {
      if (!round->route().lanes.empty()) {
        throw UsageError(
            "--dump_messages: --exchange auto is integer_sum here, which adds codes on their way, without messages; "
            "accepted with it: --exchange all_gather, scatter_reduce");
      }
      add_layout(round->fingerprint(), round->layout(), round->plan());
    }
  }
}

void MessageDump::add_layout(std::uint64_t fingerprint, const Layout& layout, const CodecPlan& plan) {
  auto& tensors = layouts_[fmt::format("{:016x}", fingerprint)];
  tensors = nlohmann::ordered_json::array();
  for (int index = 0; index < layout.num_segments(); ++index) {
    const Segment& segment = layout.segment(index);
    const Codec& codec = plan.codec_of(index);
    tensors.push_back({{"name", segment.name},
                       {"shape", segment.shape},
                       {"is_logits", segment.is_logits},
                       {"codec", codec.name()},
                       {"options", codec.options_text()}});
  }
}

void MessageDump::write(std::span<const std::uint8_t> message) {
  const MessageLabel label = read_label(message);
  if (!first_step_) {
    first_step_ = label.step;
    write_layouts();
  }
  if (label.step - *first_step_ >= num_steps_) return;
  if (label.step != step_) number_ = 0;
  step_ = label.step;
  const fs::path path = folder_ / fmt::format("step-{:06}-rank-{}-{:04}-{}-worker-{}.msg", label.step, rank_, number_++,
                                              name_of(label.kind), label.worker);
  // Neither atomic nor fsynced: there are thousands of files, and the run can be repeated.
  FileDescriptor file(path, O_WRONLY | O_CREAT | O_EXCL);
  file.write_all(std::as_bytes(message));
}

void MessageDump::write_layouts() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw_file_error("create the folder", folder_, error.value());
  const nlohmann::ordered_json json{{"num_workers", num_workers_}, {"layouts", layouts_}};
  // All processes write the same content.
  write_file_atomically(folder_ / "layout.json", json.dump(2) + "\n");
}

}  // namespace terngrad
