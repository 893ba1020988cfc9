// Embedding example: averages the gradients of two workers at 2 bits per element. The caller owns the tensors; the
// library accesses them through a table of pointers.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/route/wire_bytes.h"

namespace {

constexpr int kNumWorkers = 2;

struct Gradient {
  std::vector<float> weights = std::vector<float>(std::size_t{300} * 100);
  std::vector<float> biases = std::vector<float>(100);

  terngrad::TensorTable table(const terngrad::Layout& layout) {
    const std::vector<float*> tensors = {weights.data(), biases.data()};
    return {layout, tensors};
  }
};

Gradient random_gradient(unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, 0.01f);
  Gradient gradient;
  for (float& g : gradient.weights) g = normal(engine);
  for (float& g : gradient.biases) g = normal(engine);
  return gradient;
}

/// True if every element of `mean` is k * s / N with an integer k in [-N, N]. @param sent  one worker's decoded
/// gradient: -s, 0 or s per element
bool is_ternary_mean(const std::vector<float>& mean, const std::vector<float>& sent) {
  float s = 0;
  for (const float value : sent) s = std::fmax(s, std::fabs(value));
  const float unit = s / kNumWorkers;
  for (const float value : mean) {
    const float k = std::round(value / unit);
    if (std::fabs(k) > kNumWorkers || value != k * unit) return false;
  }
  return s > 0;
}

}  // namespace

int main() {
  terngrad::Layout layout;
  const int weights = layout.add("dense/weights", {300, 100});
  const int biases = layout.add("dense/biases", {100});

  terngrad::CompressedAllReduceOptions options;
  options.codecs.codec = "ternary:clip_factor=2.5";
  options.seed = 1;
  // Both workers are in this process. For several processes pass a terngrad::Communicator over your transport instead.
  const terngrad::WorkerGroup workers = terngrad::make_worker_group(kNumWorkers, terngrad::make_self_communicator());
  terngrad::CompressedAllReduce all_reduce(layout, workers, options);

  std::vector<Gradient> gradients = {random_gradient(1), random_gradient(2)};
  Gradient mean;
  const std::vector<terngrad::TensorTable> tables = {gradients[0].table(layout), gradients[1].table(layout)};
  const terngrad::ExchangeReport report = all_reduce.exchange(tables, mean.table(layout), /*step=*/0);

  const terngrad::NodeBytes moved = terngrad::bytes_of_busiest(report);
  std::printf(
      "each of %d workers sent %.0f bytes and received %.0f for %lld parameters: %.1f times less than float32\n",
      kNumWorkers, moved.sent, moved.received, static_cast<long long>(layout.num_elements()),
      *terngrad::wire_ratio(report, layout.num_elements(), kNumWorkers));

  std::vector<float> sent_weights(mean.weights.size());
  std::vector<float> sent_biases(mean.biases.size());
  all_reduce.decode_local(0, weights, sent_weights);
  all_reduce.decode_local(0, biases, sent_biases);
  if (!is_ternary_mean(mean.weights, sent_weights) || !is_ternary_mean(mean.biases, sent_biases)) {
    std::fprintf(stderr, "the mean is not a whole multiple of s / %d\n", kNumWorkers);
    return 1;
  }
  std::printf("every element of the mean is a whole multiple of s / %d\n", kNumWorkers);
  return 0;
}
