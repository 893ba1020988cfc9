#include "trainers/loop/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/runtime/errors.h"
#include "trainers/io/atomic_file.h"

namespace terngrad {
namespace {

constexpr std::array<std::string_view, 3> kRows = {"step", "exchange", "tensors"};

double microseconds(Trace::Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// A metadata event that names a process or one of its rows.
std::string name_event(const char* what, int rank, std::size_t row, const std::string& name) {
  return nlohmann::json{{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", name}}}}.dump();
}

class TraceHook final : public Hook {
 public:
  TraceHook(Trace& trace, std::string process_name, std::optional<Folder> folder,
            std::function<void(const std::string&)> on_error)
      : trace_(trace),
        process_name_(std::move(process_name)),
        folder_(std::move(folder)),
        on_error_(std::move(on_error)) {}

  void before_train(const TrainingView& training) override { agree_on_origin(training); }
  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    agree_on_origin(training);
    if (trace_.has_ended()) write(training);
    return HookVerdict::kContinue;
  }
  void after_train(const TrainingView& training) override { write(training); }
  std::uint64_t next_sync_step(std::uint64_t) const override { return kNoSyncStep; }
  bool on_every_rank() const override { return true; }

 private:
  void agree_on_origin(const TrainingView& training) {
    if (!trace_.begins_next()) return;
    training.services.communicator->barrier();
    trace_.set_origin();
  }
  void write(const TrainingView& training) {
    if (is_written_) return;
    is_written_ = true;
    Communicator& communicator = *training.services.communicator;
    const std::string own = trace_.to_json(communicator.rank(), process_name_);
    std::vector<Parcels> outgoing(static_cast<std::size_t>(communicator.size()));
    outgoing[0].append({reinterpret_cast<const std::uint8_t*>(own.data()), own.size()});
    Parcels incoming;
    communicator.all_to_all(outgoing, incoming);
    if (communicator.rank() != 0) return;
    std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
    for (std::size_t rank = 0; rank < incoming.count(); ++rank) {
      const std::span<const std::uint8_t> theirs = incoming.parcel(rank);
      text.append(rank == 0 ? "" : ",\n").append(theirs.begin(), theirs.end());
    }
    try {
      write_file_atomically(*folder_, "trace.json", text + "\n]}\n");
    } catch (const DataError& error) {
      on_error_(error.what());
    }
  }

  Trace& trace_;
  std::string process_name_;
  std::optional<Folder> folder_;  // set on rank 0
  std::function<void(const std::string&)> on_error_;
  bool is_written_ = false;
};

}  // namespace

Trace::Trace(std::uint64_t num_steps) : num_steps_(num_steps) {
  TERNGRAD_REQUIRE(num_steps >= 1, "[trace] a trace has one step or more");
}

void Trace::begin_step(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  ++num_begun_;
  step_ = step;
  if (!is_recording() || has_origin_) return;
  has_origin_ = true;
  origin_ = Clock::now();
}

void Trace::set_origin() {
  const std::lock_guard lock(mutex_);
  has_origin_ = true;
  origin_ = Clock::now();
}

bool Trace::begins_next() const {
  const std::lock_guard lock(mutex_);
  return num_begun_ == kWarmUpSteps;
}

bool Trace::has_ended() const {
  const std::lock_guard lock(mutex_);
  return num_begun_ >= kWarmUpSteps + num_steps_;
}

void Trace::add(Row row, std::string name, Clock::time_point begin, Clock::time_point end, Numbers numbers) {
  const std::lock_guard lock(mutex_);
  if (is_recording()) events_.push_back({row, std::move(name), begin, end - begin, false, step_, std::move(numbers)});
}

void Trace::mark(Row row, std::string name) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (is_recording()) events_.push_back({row, std::move(name), now, {}, true, step_, {}});
}

std::string Trace::to_json(int rank, const std::string& process_name) const {
  const std::lock_guard lock(mutex_);
  std::string text = name_event("process_name", rank, 0, process_name);
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    text += ",\n" + name_event("thread_name", rank, row, std::string(kRows[row]));
  }
  std::vector<const Event*> in_order;
  for (const Event& event : events_) in_order.push_back(&event);
  std::ranges::stable_sort(in_order, [](const Event* left, const Event* right) {
    return left->begin != right->begin ? left->begin < right->begin : left->duration > right->duration;
  });
  for (const Event* const found : in_order) {
    const Event& event = *found;
    nlohmann::json json = {{"name", event.name},
                           {"ph", event.is_mark ? "i" : "X"},
                           {"pid", rank},
                           {"tid", static_cast<int>(event.row)},
                           {"ts", microseconds(event.begin - origin_)}};
    if (event.is_mark) {
      json["s"] = "t";
    } else {
      json["dur"] = microseconds(event.duration);
    }
    json["args"]["step"] = event.step;
    for (const auto& [name, number] : event.numbers) json["args"][name] = number;
    text += ",\n" + json.dump();
  }
  return text;
}

std::unique_ptr<Hook> make_trace_hook(Trace& trace, std::string process_name, std::optional<Folder> folder,
                                      std::function<void(const std::string& message)> on_error) {
  return std::make_unique<TraceHook>(trace, std::move(process_name), std::move(folder), std::move(on_error));
}

}  // namespace terngrad
