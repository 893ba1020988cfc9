#include "trainers/loop/step_reduction.h"

#include <cstring>
#include <string_view>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Begin of a rank's message, followed by its steps. MPI messages' headers ensure that all have the same byte order.
struct RankStats {
  std::int64_t stop = 0;
};

/// Numbers of a step, followed by a WorkerStats per worker.
struct StepStats {
  std::int64_t zeroed_elements = 0;
  std::int64_t clipped_gradients = 0;
  ExchangeBytes bytes;
};

struct WorkerStats {
  double loss = 0;
  std::int64_t num_correct = 0;
};

std::size_t note_bytes(std::size_t num_steps, std::size_t num_workers) {
  return sizeof(RankStats) + num_steps * (sizeof(StepStats) + num_workers * sizeof(WorkerStats));
}

/// Serializes values one after the other.
class NoteWriter {
 public:
  template <class T>
  void add(const T& value) {
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + sizeof(T));
    std::memcpy(bytes_.data() + begin, &value, sizeof(T));
  }
  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// Reads the values back; `bytes` must be long enough.
class NoteReader {
 public:
  explicit NoteReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Gathers each rank's note and error text; the text is empty if its steps are done.
Parcels gather_notes(const WorkerGroup& workers, std::span<const std::uint8_t> note, std::string_view failure) {
  Parcels mine;
  Parcels all;
  mine.append(note);
  mine.append({reinterpret_cast<const std::uint8_t*>(failure.data()), failure.size()});
  workers.communicator->all_gather(mine, all);
  const std::size_t num_ranks = static_cast<std::size_t>(workers.communicator->size());
  if (all.count() != 2 * num_ranks) {
    TERNGRAD_THROW(CommunicationError, "[step] ", num_ranks, " ranks tell of a step in ", all.count(), " parts");
  }
  return all;
}

/// @throws CommunicationError with the error texts of all ranks whose steps failed, if any
void require_no_failure(const Parcels& notes) {
  std::string words;
  for (std::size_t rank = 0; 2 * rank < notes.count(); ++rank) {
    const std::span<const std::uint8_t> failure = notes.parcel(2 * rank + 1);
    if (failure.empty()) continue;
    words += (words.empty() ? "rank " : "; rank ") + std::to_string(rank) + ": ";
    words.append(failure.begin(), failure.end());
  }
  if (!words.empty()) throw CommunicationError(words);
}

void add_step(NoteReader& notes, std::size_t num_workers, StepSummary& summary) {
  const auto step = notes.take<StepStats>();
  summary.counts += {.zeroed_elements = step.zeroed_elements, .clipped_gradients = step.clipped_gradients};
  summary.bytes += step.bytes;
  for (std::size_t i = 0; i < num_workers; ++i) {
    const auto worker = notes.take<WorkerStats>();
    summary.loss += worker.loss;
    summary.num_correct += worker.num_correct;
  }
}

}  // namespace

std::vector<StepSummary> summarize_steps(const WorkerGroup& workers, std::span<const LocalStep> steps, bool stop) {
  NoteWriter own;
  own.add(RankStats{.stop = stop ? 1 : 0});
  for (const LocalStep& step : steps) {
    own.add(StepStats{.zeroed_elements = step.counts.zeroed_elements,
                      .clipped_gradients = step.counts.clipped_gradients,
                      .bytes = step.bytes});
    for (const WorkerLoss& worker : step.losses) own.add(WorkerStats{worker.entropy_loss, worker.num_correct});
  }
  const Parcels notes = gather_notes(workers, own.bytes(), "");
  require_no_failure(notes);

  std::vector<StepSummary> summaries(steps.size());
  const int num_ranks = workers.communicator->size();
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto num_workers = static_cast<std::size_t>(workers.range_of(rank).num_local_workers);
    const std::span<const std::uint8_t> parcel = notes.parcel(2 * static_cast<std::size_t>(rank));
    if (parcel.size() != note_bytes(steps.size(), num_workers)) {
      TERNGRAD_THROW(CommunicationError, "[step] rank ", rank, " tells of its steps in ", parcel.size(),
                     " bytes, expected ", note_bytes(steps.size(), num_workers), " for ", steps.size(), " of ",
                     num_workers, " workers");
    }
    NoteReader reader(parcel);
    const auto note = reader.take<RankStats>();
    for (StepSummary& summary : summaries) {
      summary.stop = summary.stop || note.stop != 0;
      add_step(reader, num_workers, summary);
    }
  }
  for (StepSummary& summary : summaries) summary.loss /= static_cast<double>(workers.num_workers);
  return summaries;
}

StepSummary summarize_step(const WorkerGroup& workers, std::span<const WorkerLoss> losses,
                           const TransformCounts& counts, const ExchangeReport& report, bool stop) {
  const LocalStep step{.losses = {losses.begin(), losses.end()}, .counts = counts, .bytes = report};
  return summarize_steps(workers, std::span(&step, 1), stop)[0];
}

void report_failed_steps(const WorkerGroup& workers, const std::string& why) {
  require_no_failure(gather_notes(workers, {}, why.empty() ? "its steps failed" : why));
  TERNGRAD_THROW(CommunicationError, why);
}

}  // namespace terngrad
