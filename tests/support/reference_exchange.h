// Reference mean of an exchange, computed per worker and element from contracts B1 to B4.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "compress/codecs/ternary_codec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::testing {

struct ReferenceExchange {
  const Layout& layout;
  std::vector<std::string> codecs;  // codec name of each tensor
  TernaryOptions ternary;           // num_workers is ignored
  DownlinkCodec downlink_codec = DownlinkCodec::kFloat32;
  std::uint64_t seed = 1;
  std::uint64_t step = 0;

  using Values = std::vector<std::vector<float>>;       // [tensor][element or scaler]
  using Codes = std::vector<std::vector<std::int8_t>>;  // [worker][element]
  std::vector<Values> local_scalers;                    // [worker][tensor][block], set by run
  Values shared_scalers;                                // [tensor][block]
  std::vector<Codes> codes;                             // [tensor][worker][element], ternary tensors only

  /// Mean over workers; a worker's non-finite tensors count as zeros.
  Values run(const std::vector<Tensors>& workers) {
    const std::size_t num_workers = workers.size();
    measure(workers);
    Values mean(codecs.size());
    codes.assign(codecs.size(), {});
    for (std::size_t t = 0; t < codecs.size(); ++t) {
      const Segment& segment = layout.segment(static_cast<int>(t));
      const auto n = static_cast<std::size_t>(segment.num_elements);
      std::vector<std::vector<float>> sent(num_workers);  // decoded messages, [worker][element]
      std::vector<int> sums(n, 0);
      for (std::size_t w = 0; w < num_workers; ++w) {
        sent[w] = codecs[t] == "ternary" ? ternary_leaf(workers[w], t, w, sums) : float_leaf(workers[w], t, w);
      }
      const bool summed = codecs[t] == "ternary" && ternary.sharing != ScalerSharing::kNone;
      mean[t].resize(n);
      std::vector<float> column(num_workers);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t w = 0; w < num_workers; ++w) column[w] = sent[w][i];
        const float inverse = 1.0f / static_cast<float>(num_workers);
        mean[t][i] =
            summed ? static_cast<float>(sums[i]) * unit(t, i, num_workers) : reference::tree_sum(column) * inverse;
      }
      if (downlink_codec == DownlinkCodec::kTernary && summed) mean[t] = return_ternary(t, sums, num_workers);
      if (downlink_codec == DownlinkCodec::kBfloat16) {
        for (float& value : mean[t]) value = reference::from_bfloat16(reference::bfloat16(value));
      }
    }
    return mean;
  }

 private:
  std::int64_t block_elements() const { return ternary.scope == ScalerScope::kBlock ? ternary.block_elements : 0; }
  std::size_t block_of(std::size_t i) const {
    return block_elements() == 0 ? 0 : i / static_cast<std::size_t>(block_elements());
  }
  /// Shared scaler / N, in float32.
  float unit(std::size_t t, std::size_t i, std::size_t num_workers) const {
    return shared_scalers[t][block_of(i)] / static_cast<float>(num_workers);
  }

  void measure(const std::vector<Tensors>& workers) {
    const bool original = ternary.rule == ScalerRule::kOriginal;
    local_scalers.assign(workers.size(), Values(codecs.size()));
    for (std::size_t w = 0; w < workers.size(); ++w) {
      reference::Statistics all;
      std::int64_t all_count = 0;
      for (std::size_t t = 0; t < codecs.size(); ++t) {
        const std::span<const float> g = workers[w].values[t];
        const std::size_t block = block_elements() == 0 || codecs[t] != "ternary"
                                      ? std::max<std::size_t>(g.size(), 1)
                                      : static_cast<std::size_t>(block_elements());
        for (std::size_t first = 0; first < g.size(); first += block) {
          const auto run = g.subspan(first, std::min(block, g.size() - first));
          const reference::Statistics s = reference::statistics(run);
          const auto n = static_cast<std::int64_t>(run.size());
          // Values that overflow when rounded to bfloat16 count as infinite.
          const bool overflows = codecs[t] == "bf16" && s.max_bits >= 0x7f7f8000u;
          float scaler = reference::is_nonfinite(s) || overflows ? NAN : 0.0f;
          if (codecs[t] == "ternary") scaler = reference::scaler(s, n, ternary.clip_factor, original);
          if (codecs[t] == "ternary" && !reference::is_nonfinite(s)) {
            all.sum += s.sum;
            all.sum_squares += s.sum_squares;
            all.max_bits = std::max(all.max_bits, s.max_bits);
            all_count += n;
          }
          local_scalers[w][t].push_back(scaler);
        }
      }
      for (std::vector<float>& scalers : local_scalers[w]) {
        // One non-finite block drops the whole tensor.
        if (std::ranges::any_of(scalers, [](float s) { return std::isnan(s); })) std::ranges::fill(scalers, NAN);
      }
      if (ternary.scope != ScalerScope::kModel) continue;
      for (std::size_t t = 0; t < codecs.size(); ++t) {
        for (float& scaler : local_scalers[w][t]) {
          if (codecs[t] != "ternary" || reference::is_nonfinite(reference::statistics(workers[w].values[t]))) continue;
          scaler = reference::scaler(all, all_count, ternary.clip_factor, original);
        }
      }
    }
    shared_scalers.assign(codecs.size(), {});
    for (std::size_t t = 0; t < codecs.size(); ++t) {
      for (std::size_t b = 0; b < local_scalers[0][t].size(); ++b) {
        float max = 0;
        double sum = 0;
        for (const Values& local : local_scalers) {
          const float s = std::isnan(local[t][b]) ? 0.0f : local[t][b];
          max = std::max(max, s);
          sum += static_cast<double>(s);
        }
        const bool mean = codecs[t] == "ternary" && ternary.sharing == ScalerSharing::kMean;
        shared_scalers[t].push_back(mean ? static_cast<float>(sum / static_cast<double>(local_scalers.size())) : max);
      }
    }
  }

  std::vector<float> ternary_leaf(const Tensors& worker, std::size_t t, std::size_t w, std::vector<int>& sums) {
    const std::vector<float>& g = worker.values[t];
    const std::vector<float>& local = local_scalers[w][t];
    std::vector<float> scalers = ternary.sharing == ScalerSharing::kNone ? local : shared_scalers[t];
    for (std::size_t b = 0; b < scalers.size(); ++b) scalers[b] = std::isnan(local[b]) ? 0.0f : scalers[b];
    const bool clip = ternary.clip_scope == ClipScope::kLocal && ternary.clip_factor > 0;
    const reference::Run run{0, static_cast<std::uint64_t>(layout.segment(static_cast<int>(t)).draw_offset),
                             block_elements(), 2};
    codes[t].push_back(reference::ternarize(g, run, scalers, clip ? local : std::vector<float>(),
                                            {seed, step, static_cast<std::uint32_t>(w), 1}));
    std::vector<float> sent(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      const int code = codes[t].back()[i];
      sums[i] += code;
      sent[i] = scalers[block_of(i)] * static_cast<float>(code);
    }
    return sent;
  }

  std::vector<float> float_leaf(const Tensors& worker, std::size_t t, std::size_t w) const {
    std::vector<float> sent = worker.values[t];
    const bool dropped = !local_scalers[w][t].empty() && std::isnan(local_scalers[w][t][0]);
    for (float& value : sent) {
      if (dropped) value = 0;
      if (codecs[t] == "bf16") value = reference::from_bfloat16(reference::bfloat16(value));
    }
    return sent;
  }

  std::vector<float> return_ternary(std::size_t t, const std::vector<int>& sums, std::size_t num_workers) const {
    std::vector<float> k(sums.begin(), sums.end());
    std::vector<float> most(shared_scalers[t].size(), 0.0f);
    for (std::size_t i = 0; i < k.size(); ++i) most[block_of(i)] = std::max(most[block_of(i)], std::fabs(k[i]));
    const reference::Run run{0, static_cast<std::uint64_t>(layout.segment(static_cast<int>(t)).draw_offset),
                             block_elements(), 4};
    const auto again = reference::ternarize(k, run, most, {}, {seed, step, 0, 3});
    std::vector<float> mean(k.size());
    for (std::size_t i = 0; i < k.size(); ++i) {
      const float factor = unit(t, i, num_workers) * most[block_of(i)];
      mean[i] = static_cast<float>(again[i]) * factor;
    }
    return mean;
  }
};

}  // namespace terngrad::testing
