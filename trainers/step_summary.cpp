#include "trainers/step_summary.h"

#include <array>
#include <cstring>
#include <vector>

#include "kernels/errors.h"

namespace terngrad {
namespace {

/// What one rank tells, followed by its workers' losses. All ranks have the same byte order: messages of MPI between
/// machines of different ones are refused by their headers before.
struct RankNote {
  std::int64_t num_workers = 0;
  std::int64_t stop = 0;
  std::int64_t zeroed_elements = 0;
  std::int64_t clipped_gradients = 0;
  std::array<LegBytes, 3> legs;
};

struct WorkerNote {
  double loss = 0;
  std::int64_t num_correct = 0;
};

void add(LegBytes& sum, const LegBytes& leg) {
  sum.sent += leg.sent;
  sum.received += leg.received;
}

}  // namespace

StepSummary summarize_step(const WorkerGroup& workers, std::span<const WorkerLoss> losses,
                           const TransformCounts& counts, const ExchangeReport& report, bool stop) {
  RankNote own;
  own.num_workers = static_cast<std::int64_t>(losses.size());
  own.stop = stop ? 1 : 0;
  own.zeroed_elements = counts.zeroed_elements;
  own.clipped_gradients = counts.clipped_gradients;
  own.legs = {report.scalers, report.gradient, report.mean};
  std::vector<std::uint8_t> bytes(sizeof(RankNote) + losses.size() * sizeof(WorkerNote));
  std::memcpy(bytes.data(), &own, sizeof(own));
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const WorkerNote note{losses[i].entropy_loss, losses[i].num_correct};
    std::memcpy(bytes.data() + sizeof(RankNote) + i * sizeof(note), &note, sizeof(note));
  }
  Parcels mine;
  Parcels all;
  mine.append(bytes);
  Communicator& communicator = *workers.communicator;
  communicator.all_gather(mine, all);

  StepSummary summary;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const WorkerRange range = workers.range_of(rank);
    const auto num_local = static_cast<std::size_t>(range.num_local_workers);
    const std::span<const std::uint8_t> parcel = all.parcel(static_cast<std::size_t>(rank));
    if (parcel.size() != sizeof(RankNote) + num_local * sizeof(WorkerNote)) {
      TERNGRAD_THROW(CommunicationError, "[step] rank ", rank, " tells of a step in ", parcel.size(),
                     " bytes, expected ", sizeof(RankNote) + num_local * sizeof(WorkerNote), " for ", num_local,
                     " workers");
    }
    RankNote note;
    std::memcpy(&note, parcel.data(), sizeof(note));
    summary.stop = summary.stop || note.stop != 0;
    summary.counts += {.zeroed_elements = note.zeroed_elements, .clipped_gradients = note.clipped_gradients};
    add(summary.scalers, note.legs[0]);
    add(summary.gradient, note.legs[1]);
    add(summary.mean, note.legs[2]);
    for (std::size_t i = 0; i < num_local; ++i) {
      WorkerNote worker;
      std::memcpy(&worker, parcel.data() + sizeof(note) + i * sizeof(worker), sizeof(worker));
      summary.loss += worker.loss;
      summary.num_correct += worker.num_correct;
    }
  }
  summary.loss /= static_cast<double>(workers.num_workers);
  return summary;
}

}  // namespace terngrad
