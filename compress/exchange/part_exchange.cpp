#include "compress/exchange/part_exchange.h"

#include <utility>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/low_rank_round.h"
#include "compress/exchange/round.h"
#include "compress/exchange/vendor_round.h"
#include "compress/plan/low_rank_rounds.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// The part of a rank for which another rank of its group exchanges.
class AbsentExchange final : public PartExchange {
 public:
  void run(std::span<const TensorTable>, const TensorTable&, const DeviceStep&, Stream&, PartClock&) override {}
  ExchangeBytes bytes() const override { return {}; }
  float decode_local(int local_worker, int, std::span<float>, Stream&) override {
    TERNGRAD_THROW(InvalidArgument, "[exchange] no local worker ", local_worker,
                   ": another rank of the group sends its mean");
  }
  void update_memory(const MemoryUpdate&, std::span<const TensorTable>, std::span<const TensorTable>,
                     Stream&) override {}
  void commit(Stream&) override {}
  std::vector<const Round*> rounds() const override { return {}; }
};

}  // namespace

std::unique_ptr<PartExchange> make_part_exchange(const Layout& layout, CodecPlan plan, const PartContext& context,
                                                 std::vector<int> numbers) {
  if (!context.peers.takes_part()) return std::make_unique<AbsentExchange>();
  if (context.options.vendor_type.has_value()) {
    return std::make_unique<VendorRound>(layout, context, std::move(numbers));
  }
  if (has_low_rank(plan)) return std::make_unique<LowRankRound>(layout, plan, context, std::move(numbers));
  return std::make_unique<Round>(layout, std::move(plan), context, std::move(numbers));
}

void require_tables(std::span<const TensorTable> gradients, const TensorTable& mean, const WorkerRange& workers) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == workers.num_local_workers, "[exchange] this process has ",
                   workers.num_local_workers, " workers, got ", gradients.size(), " gradients");
  TERNGRAD_REQUIRE(mean.type() == ElementType::kFloat32, "[exchange] the mean is written as fp32, got a table of ",
                   element_type_name(mean.type()));
}

void require_decodable(const Layout& layout, const WorkerRange& workers, int local_worker, int segment,
                       std::span<const float> out) {
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < workers.num_local_workers, "[exchange] no local worker ",
                   local_worker);
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout.num_segments(), "[exchange] no tensor ", segment);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == layout.segment(segment).num_elements, "[exchange] tensor '",
                   layout.segment(segment).name, "' has ", layout.segment(segment).num_elements,
                   " elements, out holds ", out.size());
}

}  // namespace terngrad
