#include "compress/memory/factor_rounds.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compress/plan/codec_plan.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/memory_update.h"

namespace terngrad {

FactorRounds::FactorRounds(const Layout& layout, const CodecPlan& plan, int num_workers, int num_local_workers,
                           SharedState& factors)
    : layout_(layout),
      rounds_(low_rank_rounds(layout, plan, num_workers)),
      products_(factors.device()),
      mean_products_(factors.device()),
      kept_products_(factors.device()),
      steps_(factors.device()),
      mean_steps_(factors.device()) {
  const Device& device = factors.device();
  std::int64_t num_p = 0;
  std::int64_t num_q = 0;
  for (const int index : rounds_.segments) {
    const Segment& segment = layout.segment(index);
    const LowRankForm form = *plan.codec_of(index).low_rank();
    Tensor tensor{.segment = index,
                  .sizes = factor_sizes(segment, form.rank),
                  .factors = form.factors,
                  .draw_offset = segment.draw_offset,
                  .kept = factors.find(segment.name),
                  .p_offset = num_p,
                  .q_offset = num_q};
    num_p += tensor.num_p();
    num_q += tensor.num_q();
    tensors_.push_back(tensor);
  }
  begun_q_ = Buffer<float>(num_q, device);
  mean_p_ = Buffer<float>(num_p, device);
  mean_q_ = Buffer<float>(num_q, device);
  for (int worker = 0; worker < num_local_workers; ++worker) {
    own_p_.emplace_back(num_p, device);
    own_q_.emplace_back(num_q, device);
  }
  const bool rounds = std::ranges::any_of(tensors_, [](const Tensor& t) { return t.factors != ElementType::kFloat32; });
  for (int worker = 0; rounds && worker < num_local_workers; ++worker) kept_p_.emplace_back(num_p, device);
  mean_flags_ = Buffer<float>(static_cast<std::int64_t>(tensors_.size()), device);
  flags_ = Buffer<float>(num_local_workers * static_cast<std::int64_t>(tensors_.size()), device);
}

int FactorRounds::find(int segment) const {
  const auto found = std::ranges::find(tensors_, segment, &Tensor::segment);
  return found == tensors_.end() ? -1 : static_cast<int>(found - tensors_.begin());
}

FactorTask FactorRounds::task_of(const Tensor& tensor, const TensorTable& gradient, float* p, float* q) const {
  return {.m = {gradient.tensor(tensor.segment), tensor.sizes.rows, tensor.sizes.columns},
          .rank = tensor.sizes.rank,
          .p = p + tensor.p_offset,
          .q = q + tensor.q_offset};
}

TensorTable FactorRounds::with_factors(const TensorTable& whole, float* p) const {
  std::vector<float*> tensors;
  tensors.reserve(static_cast<std::size_t>(layout_.num_segments()));
  for (int segment = 0; segment < layout_.num_segments(); ++segment) tensors.push_back(whole.tensor(segment));
  for (const Tensor& tensor : tensors_) tensors[static_cast<std::size_t>(tensor.segment)] = p + tensor.p_offset;
  return {rounds_.first, tensors};
}

TensorTable FactorRounds::table_of_q(float* q) const {
  std::vector<float*> tensors;
  tensors.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) tensors.push_back(q + tensor.q_offset);
  return {rounds_.second, tensors};
}

std::vector<TensorTable> FactorRounds::first_tables(std::span<const TensorTable> tables) {
  std::vector<TensorTable> result;
  for (std::size_t worker = 0; worker < tables.size(); ++worker) {
    result.push_back(with_factors(tables[worker], own_p_[worker].data()));
  }
  return result;
}

std::vector<TensorTable> FactorRounds::first_kept(std::span<const TensorTable> tables) {
  if (kept_p_.empty()) return first_tables(tables);  // lossless fp32 factors are not written
  std::vector<TensorTable> result;
  for (std::size_t worker = 0; worker < tables.size(); ++worker) {
    result.push_back(with_factors(tables[worker], kept_p_[worker].data()));
  }
  return result;
}

TensorTable FactorRounds::first_mean(const TensorTable& mean) { return with_factors(mean, mean_p_.data()); }

TensorTable FactorRounds::second_mean() { return table_of_q(mean_q_.data()); }

std::vector<TensorTable> FactorRounds::begin(std::span<const TensorTable> gradients, std::uint64_t seed,
                                             const DeviceStep& step, Stream& stream) {
  std::vector<FactorBegin> begun;
  for (const Tensor& tensor : tensors_) {
    begun.push_back({.kept = tensor.kept,
                     .q = begun_q_.data() + tensor.q_offset,
                     .rank = tensor.sizes.rank,
                     .columns = tensor.sizes.columns,
                     .draw_offset = tensor.draw_offset});
  }
  steps_.begin(begun, seed, step, stream);
  products_of_step_.clear();
  roundings_.clear();
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& tensor = tensors_[t];
      products_of_step_.push_back(task_of(tensor, gradients[worker], own_p_[worker].data(), begun_q_.data()));
      roundings_.push_back({.values = own_p_[worker].data() + tensor.p_offset,
                            .count = tensor.num_p(),
                            .type = tensor.factors,
                            .flag = flag(worker, t)});
    }
  }
  products_.times_columns(products_of_step_, stream);
  // A non-finite element makes its row of P non-finite, so that the exchange finds the tensor to be non-finite.
  steps_.round_first(roundings_, stream);
  return first_tables(gradients);
}

std::vector<TensorTable> FactorRounds::turn(std::span<const TensorTable> gradients, Stream& stream) {
  products_of_step_.clear();
  roundings_.clear();
  for (const Tensor& tensor : tensors_) {
    products_of_step_.push_back({.m = {nullptr, tensor.sizes.rows, tensor.sizes.columns},
                                 .rank = tensor.sizes.rank,
                                 .p = mean_p_.data() + tensor.p_offset});
    roundings_.push_back({.values = mean_p_.data() + tensor.p_offset, .count = tensor.num_p(), .type = tensor.factors});
  }
  products_.orthonormalize(products_of_step_, stream);
  steps_.round_mean(roundings_, stream);
  products_of_step_.clear();
  roundings_.clear();
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& tensor = tensors_[t];
      products_of_step_.push_back(task_of(tensor, gradients[worker], mean_p_.data(), own_q_[worker].data()));
      roundings_.push_back({.values = own_q_[worker].data() + tensor.q_offset,
                            .count = tensor.num_q(),
                            .type = tensor.factors,
                            .flag = flag(worker, t)});
    }
  }
  products_.times_rows(products_of_step_, stream);
  steps_.round_second(roundings_, stream);
  std::vector<TensorTable> tables;
  tables.reserve(gradients.size());
  for (Buffer<float>& q : own_q_) tables.push_back(table_of_q(q.data()));
  return tables;
}

void FactorRounds::write_mean(const TensorTable& mean, Stream& stream) {
  written_.clear();
  roundings_.clear();
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    const Tensor& tensor = tensors_[t];
    roundings_.push_back(
        {.values = mean_q_.data() + tensor.q_offset, .count = tensor.num_q(), .flag = mean_flags_.data() + t});
    written_.push_back({.sizes = tensor.sizes,
                        .p = mean_p_.data() + tensor.p_offset,
                        .q = mean_q_.data() + tensor.q_offset,
                        .out = mean.tensor(tensor.segment)});
  }
  // Float32 factors are not rounded: the first call flags non-finite factors, the second sets them to zero.
  mean_steps_.round_first(roundings_, stream);
  mean_steps_.round_second(roundings_, stream);
  mean_products_.write_products(written_, nullptr, stream);
}

void FactorRounds::update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                                 std::span<const TensorTable> kept, const std::uint32_t* skip, Stream& stream) {
  TERNGRAD_REQUIRE(what.kind == MemoryUpdateKind::kUnsent || what.kind == MemoryUpdateKind::kEncoded,
                   "[low_rank] factors are of all elements, and their residuals are float32");
  written_.clear();
  for (std::size_t worker = 0; worker < encoded.size(); ++worker) {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& tensor = tensors_[t];
      const float* const from = encoded[worker].tensor(tensor.segment);
      float* const to = kept[worker].tensor(tensor.segment);
      if (what.kind == MemoryUpdateKind::kEncoded) {
        terngrad::update_memory({.encoded = from,
                                 .kept = to,
                                 .count = layout_.segment(tensor.segment).num_elements,
                                 .flag = flag(worker, t),
                                 .skip = skip},
                                stream);
        continue;
      }
      written_.push_back({.sizes = tensor.sizes,
                          .p = mean_p_.data() + tensor.p_offset,
                          .q = own_q_[worker].data() + tensor.q_offset,
                          .from = from,
                          .flag = flag(worker, t),
                          .out = to});
    }
  }
  if (!written_.empty()) kept_products_.write_products(written_, skip, stream);
}

void FactorRounds::commit(const std::uint32_t* skip, Stream& stream) {
  std::vector<FactorMemoryTask> kept;
  for (const Tensor& tensor : tensors_) {
    if (tensor.kept != nullptr) kept.push_back({mean_q_.data() + tensor.q_offset, tensor.kept, tensor.num_q()});
  }
  steps_.update_memory(kept, skip, stream);
}

void FactorRounds::decode(int local_worker, int segment, std::span<float> out, Stream& stream) {
  const auto worker = static_cast<std::size_t>(local_worker);
  const auto t = static_cast<std::size_t>(find(segment));
  const Tensor& tensor = tensors_.at(t);
  std::array<float, 1> flag_of{};
  std::vector<float> p(static_cast<std::size_t>(tensor.num_p()));
  std::vector<float> q(static_cast<std::size_t>(tensor.num_q()));
  copy<float>({flag(worker, t), 1}, std::span(flag_of), stream);
  copy<float>({mean_p_.data() + tensor.p_offset, p.size()}, std::span(p), stream);
  copy<float>({own_q_[worker].data() + tensor.q_offset, q.size()}, std::span(q), stream);
  stream.synchronize();
  if (std::isnan(flag_of[0])) {
    std::ranges::fill(out, 0.0f);
  } else {
    low_rank_elements(p.data(), tensor.sizes.rows, q.data(), tensor.sizes.columns, tensor.sizes.rank, 0, out);
  }
}

}  // namespace terngrad
