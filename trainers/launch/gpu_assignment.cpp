#include "trainers/launch/gpu_assignment.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/runtime/errors.h"
#include "nets/device_net.h"

namespace terngrad {
namespace {

std::string gpus_text(std::size_t count) { return std::to_string(count) + (count == 1 ? " GPU" : " GPUs"); }

void require_same_wishes(std::span<const ProcessGpus> processes) {
  const ProcessGpus& chief = processes[0];
  for (const ProcessGpus& other : processes) {
    const auto require_same = [&](const char* option, const std::string& here, const std::string& there) {
      if (here == there) return;
      TERNGRAD_THROW(UsageError, option, " is ", here, " for ", other.process, " and ", there, " for ", chief.process,
                     "; all ranks of a run must have the same");
    };
    require_same("--device", other.device, chief.device);
    require_same("--num_gpus", std::to_string(other.num_gpus), std::to_string(chief.num_gpus));
    require_same("--math", other.math, chief.math);
  }
}

/// True if the run is on GPUs. @throws UsageError if --device requires GPUs and a process has none, or only some have
bool are_on_gpus(std::span<const ProcessGpus> processes) {
  const std::string& device = processes[0].device;
  if (device == "cpu") return false;
  const auto has_none = [](const ProcessGpus& process) { return !process.why_none.empty(); };
  const auto without = std::ranges::find_if(processes, has_none);
  if (without == processes.end()) return true;
  if (device == "auto" && std::ranges::all_of(processes, has_none)) return false;
  TERNGRAD_THROW(UsageError, "--device ", device, ": ", without->process, " has no GPU (", without->why_none,
                 device == "auto" ? "), others have" : ")", "; accepted: cpu");
}

bool use_same_gpus(const ProcessGpus& a, const ProcessGpus& b) { return a.host == b.host && a.ids == b.ids; }

/// The GPUs of process `rank`.
GpuRange range_of(std::span<const ProcessGpus> processes, std::size_t rank, GpuUse use) {
  const ProcessGpus& own = processes[rank];
  const auto sharing = [&](const ProcessGpus& other) { return use_same_gpus(own, other); };
  const auto num_sharing = static_cast<std::size_t>(std::ranges::count_if(processes, sharing));
  const auto place = static_cast<std::size_t>(std::ranges::count_if(processes.first(rank), sharing));
  const std::size_t present = own.ids.size();
  const auto wanted = static_cast<std::size_t>(own.num_gpus);
  if (use == GpuUse::kShared) {
    if (wanted <= 1) return {.first = static_cast<int>(place % present), .count = 1};
    if (wanted * num_sharing > present) {
      TERNGRAD_THROW(UsageError, "--num_gpus ", wanted, ": ", num_sharing,
                     num_sharing == 1 ? " process has " : " processes share ", "the ", gpus_text(present), " of ",
                     own.host, "; accepted: 0 or 1 (in turn) to ", std::max<std::size_t>(1, present / num_sharing));
    }
    return {.first = static_cast<int>(place * wanted), .count = static_cast<int>(wanted)};
  }
  if (num_sharing > present) {
    TERNGRAD_THROW(UsageError, "--device ", own.device, ": ", num_sharing, " processes share the ", gpus_text(present),
                   " of ", own.host, ", and each needs one of its own; accepted: cpu, or at most ", present,
                   present == 1 ? " process" : " processes", " there");
  }
  if (wanted == 0 && present % num_sharing != 0) {
    TERNGRAD_THROW(UsageError, "--num_gpus: ", num_sharing, " processes cannot share the ", gpus_text(present), " of ",
                   own.host, " evenly; say how many each is to take, 1 to ", present / num_sharing);
  }
  const std::size_t count = wanted == 0 ? present / num_sharing : wanted;
  if (count * num_sharing > present) {
    const std::string who =
        num_sharing == 1 ? own.process + " sees " : std::to_string(num_sharing) + " processes share ";
    TERNGRAD_THROW(UsageError, "--num_gpus ", count, ": ", who, gpus_text(present), " of ", own.host,
                   "; accepted: 0 (an equal part) to ", present / num_sharing);
  }
  return {.first = static_cast<int>(place * count), .count = static_cast<int>(count), .joins_others = true};
}

void require_equal_counts(std::span<const ProcessGpus> processes, std::span<const GpuRange> ranges) {
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    if (ranges[rank].count == ranges[0].count) continue;
    TERNGRAD_THROW(UsageError, "--num_gpus: the equal part of ", processes[rank].process, " is ",
                   gpus_text(static_cast<std::size_t>(ranges[rank].count)), " and that of ", processes[0].process, " ",
                   gpus_text(static_cast<std::size_t>(ranges[0].count)), "; say how many each is to take, 1 to ",
                   std::min(ranges[rank].count, ranges[0].count));
  }
}

/// Throws if two processes with different visible GPUs would use the same GPU exclusively, or if models differ.
void require_own_gpus_of_one_model(std::span<const ProcessGpus> processes, std::span<const GpuRange> ranges,
                                   GpuUse use) {
  std::map<std::pair<std::string, std::string>, std::string> owners;
  const std::string& model = processes[0].models.at(static_cast<std::size_t>(ranges[0].first));
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    const ProcessGpus& process = processes[rank];
    for (int index = ranges[rank].first; index < ranges[rank].first + ranges[rank].count; ++index) {
      const auto at = static_cast<std::size_t>(index);
      const auto [owner, is_new] = owners.emplace(std::pair(process.host, process.ids[at]), process.process);
      if (!is_new && use == GpuUse::kExclusive) {
        TERNGRAD_THROW(UsageError, "--num_gpus: ", process.process, " and ", owner->second, " would both take the GPU ",
                       process.ids[at],
                       "; let processes of a host see the same GPUs, or none in common, by CUDA_VISIBLE_DEVICES");
      }
      if (process.models[at] == model) continue;
      TERNGRAD_THROW(UsageError, "--device ", process.device, ": workers would get other bits on ", process.models[at],
                     " of ", process.process, " than on ", model, " of ", processes[0].process,
                     "; choose GPUs of one model with CUDA_VISIBLE_DEVICES");
    }
  }
}

}  // namespace

std::vector<GpuRange> assign_gpus(std::span<const ProcessGpus> processes, GpuUse use) {
  TERNGRAD_REQUIRE(!processes.empty(), "[assign_gpus] there is no process");
  require_same_wishes(processes);
  if (!are_on_gpus(processes)) return {};
  std::vector<GpuRange> ranges;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) ranges.push_back(range_of(processes, rank, use));
  require_equal_counts(processes, ranges);
  require_own_gpus_of_one_model(processes, ranges, use);
  return ranges;
}

ProcessGpus own_gpus(const ProcessGroup& processes, const std::string& device, int num_gpus, const std::string& math,
                     GpuUse use) {
  ProcessGpus own{.process = processes.name_of(processes.rank()),
                  .host = processes.host_of(processes.rank()),
                  .device = device,
                  .num_gpus = num_gpus,
                  .math = math,
                  .ids = {},
                  .models = {}};
  if (device == "cpu") return own;
  own.why_none = gpu_unavailable_reason(/*joins_others=*/use == GpuUse::kExclusive);
  if (!own.why_none.empty()) return own;
  for (int index = 0; index < num_cuda_devices(); ++index) {
    const Device gpu = Device::cuda(index);
    own.ids.push_back(gpu.unique_id());
    own.models.push_back(gpu.description() + ", " + device_net_libraries());
  }
  return own;
}

std::vector<ProcessGpus> gather_gpus(const ProcessGroup& processes, const ProcessGpus& own) {
  const nlohmann::json note = {{"process", own.process},   {"host", own.host},    {"device", own.device},
                               {"num_gpus", own.num_gpus}, {"math", own.math},    {"why_none", own.why_none},
                               {"ids", own.ids},           {"models", own.models}};
  std::vector<ProcessGpus> all;
  for (const std::string& text : processes.all_gather_strings(note.dump())) {
    const auto told = nlohmann::json::parse(text);
    all.push_back({.process = told.at("process"),
                   .host = told.at("host"),
                   .device = told.at("device"),
                   .num_gpus = told.at("num_gpus"),
                   .math = told.at("math"),
                   .why_none = told.at("why_none"),
                   .ids = told.at("ids"),
                   .models = told.at("models")});
  }
  return all;
}

}  // namespace terngrad
