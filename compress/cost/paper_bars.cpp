#include "compress/cost/paper_bars.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {

namespace {

constexpr std::array kGpus = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
constexpr double kWeightOfShortBar = 0.3;

std::vector<PaperBars> with_weights(std::vector<PaperBars> all) {
  for (PaperBars& bars : all) {
    bars.weights.assign(kGpus.size(), 1);
    if (bars.cluster != "paper-ethernet" || bars.net != "vgg_a" || bars.is_ternary) continue;
    for (std::size_t i = 0; i < kGpus.size(); ++i) {
      if (kGpus[i] == 32 || kGpus[i] == 64) bars.weights[i] = kWeightOfShortBar;
    }
  }
  return all;
}

}  // namespace

std::span<const int> paper_gpus() { return kGpus; }

const std::vector<PaperBars>& paper_bars() {
  static const std::vector<PaperBars> all = with_weights({
      {"paper-ethernet", "alexnet", false, {394, 758, 1503, 719, 830, 1667, 3251, 6542, 13043, 25709}, {}},
      {"paper-ethernet", "alexnet", true, {387, 768, 1536, 2189, 3459, 6833, 13626, 26959, 53126, 99417}, {}},
      {"paper-ethernet", "googlenet", false, {174, 348, 692, 850, 1283, 2500, 4917, 9709, 19000, 36542}, {}},
      {"paper-ethernet", "googlenet", true, {174, 348, 696, 1231, 2326, 4459, 8793, 17167, 33167, 62542}, {}},
      {"paper-ethernet", "vgg_a", false, {95, 167, 318, 49, 52, 126, 209, 417, 834, 1667}, {}},
      {"paper-ethernet", "vgg_a", true, {89, 174, 351, 322, 420, 876, 1667, 3251, 6417, 12584}, {}},
      {"paper-infiniband", "alexnet", false, {436, 867, 1734, 2787, 5301, 10349, 20403, 40707, 80920, 161548}, {}},
      {"paper-infiniband", "alexnet", true, {427, 854, 1712, 3347, 6602, 13207, 26513, 52928, 105660, 211225}, {}},
      {"paper-infiniband", "googlenet", false, {194, 388, 776, 1501, 2972, 5914, 11827, 23556, 46916, 93931}, {}},
      {"paper-infiniband", "googlenet", true, {194, 388, 772, 1540, 3071, 6110, 12221, 24543, 48985, 97973}, {}},
      {"paper-infiniband", "vgg_a", false, {108, 207, 410, 406, 720, 1282, 2662, 5124, 10251, 20305}, {}},
      {"paper-infiniband", "vgg_a", true, {95, 194, 388, 716, 1410, 2760, 5520, 11139, 22176, 44254}, {}},
  });
  return all;
}

double paper_bar(const std::string& cluster, const std::string& net, bool is_ternary, int num_gpus) {
  const auto gpus = std::ranges::find(kGpus, num_gpus);
  for (const PaperBars& bars : paper_bars()) {
    const bool is_wanted = bars.cluster == cluster && bars.net == net && bars.is_ternary == is_ternary;
    if (is_wanted && gpus != kGpus.end()) {
      return bars.images_per_second[static_cast<std::size_t>(gpus - kGpus.begin())];
    }
  }
  TERNGRAD_THROW(InvalidArgument, "[paper_bar] figure 5 has no bar of ", net, " on ", num_gpus, " GPUs of ", cluster);
}

double paper_rms_percent(const PaperCluster& cluster) {
  double sum = 0;
  int count = 0;
  for (const PaperBars& bars : paper_bars()) {
    if (bars.cluster != cluster.name) continue;
    for (std::size_t i = 0; i < kGpus.size(); ++i) {
      const double model = paper_throughput(cluster, paper_net(bars.net), bars.codec(), kGpus[i]);
      const double error = std::log(model / bars.images_per_second[i]);
      sum += bars.weights[i] * error * error;
      ++count;
    }
  }
  TERNGRAD_REQUIRE(count > 0, "[paper_rms_percent] figure 5 has no bars of ", cluster.name);
  return 100 * std::sqrt(sum / count);
}

}  // namespace terngrad
