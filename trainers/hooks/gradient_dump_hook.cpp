#include "trainers/hooks/gradient_dump_hook.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/safetensors.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;

/// Gathers the gradients of a step's workers on rank 0, one after the other. Every rank constructs one and calls
/// `next`, which is collective, once per worker of the run.
class GradientGather {
 public:
  GradientGather(const TrainingView& training, const StepView& step)
      : training_(training), step_(step), flat_(static_cast<std::size_t>(training.net.layout().flat_elements())) {
    if (is_alone()) {
      end_of_rank_ = {training.num_workers};
      return;
    }
    const auto count = static_cast<std::uint64_t>(training.num_local_workers);
    Parcels mine;
    Parcels all;
    mine.append({reinterpret_cast<const std::uint8_t*>(&count), sizeof count});
    training.services.communicator->all_gather(mine, all);
    int end = 0;
    for (std::size_t rank = 0; rank < all.count(); ++rank) {
      std::uint64_t of_rank = 0;
      std::memcpy(&of_rank, all.parcel(rank).data(), std::min(sizeof of_rank, all.parcel(rank).size()));
      end_of_rank_.push_back(end += static_cast<int>(of_rank));
    }
    if (end == training.num_workers) return;
    TERNGRAD_THROW(CommunicationError, "[gradients] the ranks have ", end, " workers, expected ", training.num_workers);
  }

  bool is_done() const { return worker_ == training_.num_workers; }

  /// The next worker's gradient. @returns on rank 0 its elements in the net's layout, valid until the next call;
  /// elsewhere empty. @throws CommunicationError
  std::span<const float> next() {
    const auto owner = static_cast<std::size_t>(std::ranges::upper_bound(end_of_rank_, worker_) - end_of_rank_.begin());
    const int local_worker = worker_ - (owner == 0 ? 0 : end_of_rank_[owner - 1]);
    ++worker_;
    const std::size_t rank = is_alone() ? 0 : static_cast<std::size_t>(training_.services.communicator->rank());
    if (rank == owner) copy_own(local_worker);
    if (owner == 0) return rank == 0 ? std::span<const float>(flat_) : std::span<const float>();
    std::vector<Parcels> outgoing(static_cast<std::size_t>(training_.services.communicator->size()));
    Parcels all;
    if (rank == owner) outgoing[0].append({reinterpret_cast<const std::uint8_t*>(flat_.data()), num_bytes()});
    training_.services.communicator->all_to_all(outgoing, all);
    if (rank != 0) return {};
    if (all.count() != 1 || all.parcel(0).size() != num_bytes()) {
      TERNGRAD_THROW(CommunicationError, "[gradients] worker ", worker_ - 1, "'s came as ", all.count(),
                     " parcels, expected one of ", num_bytes(), " bytes");
    }
    std::memcpy(flat_.data(), all.parcel(0).data(), num_bytes());
    return flat_;
  }

 private:
  bool is_alone() const {
    return training_.services.communicator == nullptr || training_.services.communicator->size() == 1;
  }
  std::size_t num_bytes() const { return flat_.size() * sizeof(float); }
  void copy_own(int local_worker) {
    if (!step_.worker_gradient) throw NotSupported("[gradients] this training has no gradients to write");
    for (int segment = 0; segment < training_.net.layout().num_segments(); ++segment) {
      std::ranges::copy(step_.worker_gradient(local_worker, segment),
                        flat_.begin() + training_.net.layout().segment(segment).offset);
    }
  }

  const TrainingView& training_;
  const StepView& step_;
  std::vector<float> flat_;
  std::vector<int> end_of_rank_;  // one past the last worker of each rank
  int worker_ = 0;                // next worker
};

/// Records of one worker's tensors, whose bytes point into `flat`.
std::vector<TensorRecord> records_of(const Layout& layout, int worker, std::span<const float> flat) {
  std::vector<TensorRecord> records;
  for (const Segment& segment : layout.segments()) {
    records.push_back({.name = fmt::format("worker-{:04}/{}", worker, segment.name),
                       .type = TensorType::kF32,
                       .shape = segment.shape,
                       .bytes = std::as_bytes(flat.subspan(static_cast<std::size_t>(segment.offset),
                                                           static_cast<std::size_t>(segment.num_elements)))});
  }
  return records;
}

class GradientDumpHook final : public Hook {
 public:
  GradientDumpHook(GradientDumpOptions options, ProgressDisplay& display)
      : options_(std::move(options)), display_(display) {}

  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    if (training.steps_done % options_.dump_steps != 0) return HookVerdict::kContinue;
    GradientGather gather(training, step);
    try {
      write(training, gather);
    } catch (const DataError& error) {
      // The other ranks send their gradients even if the file failed.
      while (!gather.is_done()) gather.next();
      if (!options_.continues_after_errors) throw;
      display_.message("step " + std::to_string(training.steps_done) + ": " + error.what() + "; training continues");
    }
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override {
    return next_multiple(options_.dump_steps, steps_done);
  }

 private:
  /// Opens the folder gradients/ of the run, which may have been moved. Removes temporaries of killed processes.
  Folder folder() {
    const fs::path path = options_.run.path() / "gradients";
    std::error_code error;
    fs::create_directory(path, error);
    if (error) throw_file_error("create the folder", path, error.value());
    Folder folder(path);
    if (!std::exchange(is_clean_, true)) remove_stale_temporaries(folder);
    return folder;
  }

  void write(const TrainingView& training, GradientGather& gather) {
    const Layout& layout = training.net.layout();
    // The header only needs lengths, so one buffer stands for all workers.
    const std::vector<float> no_gradient(static_cast<std::size_t>(layout.flat_elements()));
    std::vector<TensorRecord> all;
    for (int worker = 0; worker < training.num_workers; ++worker) {
      std::ranges::move(records_of(layout, worker, no_gradient), std::back_inserter(all));
    }
    const SafetensorsImage image(all, {{"step", std::to_string(training.steps_done)},
                                       {"num_workers", std::to_string(training.num_workers)},
                                       {"net", training.net.name()}});
    const std::string name = fmt::format("step-{:010}.safetensors", training.steps_done);
    write_file_atomically(folder(), name, [&](const WritePiece& write) {
      write(image.parts()[0]);
      for (int worker = 0; !gather.is_done(); ++worker) {
        const std::vector<TensorRecord> of_worker = records_of(layout, worker, gather.next());
        for (const TensorRecord& record : of_worker) write(record.bytes);
        if (training.services.send_heartbeat) training.services.send_heartbeat();
      }
    });
  }

  GradientDumpOptions options_;
  ProgressDisplay& display_;
  bool is_clean_ = false;
};

class GradientSenderHook final : public Hook {
 public:
  explicit GradientSenderHook(std::uint64_t dump_steps) : dump_steps_(dump_steps) {}
  HookVerdict after_step(const TrainingView& training, const StepView& step) override {
    if (training.steps_done % dump_steps_ != 0) return HookVerdict::kContinue;
    for (GradientGather gather(training, step); !gather.is_done();) gather.next();
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override {
    return next_multiple(dump_steps_, steps_done);
  }
  bool on_every_rank() const override { return true; }

 private:
  std::uint64_t dump_steps_;
};

}  // namespace

std::unique_ptr<Hook> make_gradient_dump_hook(GradientDumpOptions options, ProgressDisplay& display) {
  TERNGRAD_REQUIRE(options.dump_steps >= 1, "[make_gradient_dump_hook] dump_steps must be 1 or more");
  return std::make_unique<GradientDumpHook>(std::move(options), display);
}

std::unique_ptr<Hook> make_gradient_sender_hook(std::uint64_t dump_steps) {
  TERNGRAD_REQUIRE(dump_steps >= 1, "[make_gradient_sender_hook] dump_steps must be 1 or more");
  return std::make_unique<GradientSenderHook>(dump_steps);
}

}  // namespace terngrad
