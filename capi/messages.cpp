// Inspecting, decoding and aggregating messages.
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "capi/arrays.h"
#include "capi/plan.h"
#include "capi/status.h"
#include "capi/stream.h"
#include "capi/structs.h"
#include "compress/wire/aggregate_messages.h"
#include "compress/wire/gradient_message.h"

using namespace terngrad;
using namespace terngrad::capi;

namespace {

std::span<const std::uint8_t> view(const std::uint8_t* message, std::int64_t bytes) {
  TERNGRAD_REQUIRE(bytes >= 0, "a message of ", bytes, " bytes");
  TERNGRAD_REQUIRE(message != nullptr || bytes == 0, "message is NULL");
  return {message, static_cast<std::size_t>(bytes)};
}

/// A message at an address that is a multiple of 8, copied if necessary.
class Aligned {
 public:
  explicit Aligned(std::span<const std::uint8_t> bytes) : bytes_(bytes) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % 8 == 0) return;
    words_.resize((bytes.size() + 7) / 8);
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    bytes_ = {reinterpret_cast<const std::uint8_t*>(words_.data()), bytes.size()};
  }
  std::span<const std::uint8_t> get() const { return bytes_; }

 private:
  std::vector<std::uint64_t> words_;
  std::span<const std::uint8_t> bytes_;
};

MessageContext context_of(const Plan& plan, std::uint64_t run_id, std::uint64_t step) {
  return {run_id, plan.codecs.fingerprint(), step, plan.seed};
}

}  // namespace

extern "C" {

tg_status tg_message_inspect(const uint8_t* message, int64_t bytes, tg_message_info* info, tg_record_info* records,
                             int32_t capacity) {
  return guard([&] {
    check_struct(info, "info");
    const MessageOutline outline = outline_message(view(message, bytes));
    const auto num_records = static_cast<std::int64_t>(outline.records.size());
    TERNGRAD_REQUIRE(num_records <= std::numeric_limits<std::int32_t>::max(), "a message of ", num_records, " records");
    fill(info, {.struct_size = 0,
                .kind = static_cast<std::int32_t>(outline.label.kind),
                .run_id = outline.run_id,
                .fingerprint = outline.fingerprint,
                .step = outline.label.step,
                .worker = outline.label.worker,
                .num_records = static_cast<std::int32_t>(num_records),
                .payload_bytes = outline.payload_bytes,
                .num_elements = outline.num_elements});
    if (capacity == 0) return;
    TERNGRAD_REQUIRE(capacity >= num_records, "capacity is ", capacity, ", the message has ", num_records, " records");
    deref(records, "records");
    for (const MessageOutline::Record& record : outline.records) {
      *records++ = {.tensor = record.segment,
                    .codec = record.codec,
                    .format = record.format,
                    .num_scalers = record.num_scalers,
                    .first = record.first,
                    .count = record.count,
                    .scalers_at = record.scalers_at,
                    .codes_at = record.codes_at,
                    .codes_bytes = record.bytes};
    }
  });
}

tg_status tg_message_decode(const tg_plan* plan, uint64_t run_id, uint64_t step, const uint8_t* message, int64_t bytes,
                            const tg_array* out, int32_t n, int32_t* worker, const tg_stream*) {
  return guard([&] {
    const Plan& of = *deref(plan, "plan").plan;
    const TensorTable table = write_table(of.layout, out, n, "out, ");
    const Aligned aligned(view(message, bytes));
    Message read;
    read_gradient_message(aligned.get(), of.layout, of.codecs, context_of(of, run_id, step), read);
    decode_gradient(read, of.codecs, table);
    if (worker != nullptr) *worker = read.worker;
  });
}

tg_status tg_aggregate(const tg_plan* plan, uint64_t run_id, uint64_t step, const uint8_t* const* messages,
                       const int64_t* bytes, int32_t num_messages, const tg_array* mean, int32_t n,
                       const tg_stream* stream) {
  return guard([&] {
    const Plan& of = *deref(plan, "plan").plan;
    TERNGRAD_REQUIRE(num_messages == of.num_workers, "got ", num_messages, " messages, expected one of each of ",
                     of.num_workers, " workers");
    deref(messages, "messages");
    deref(bytes, "bytes");
    std::vector<std::span<const std::uint8_t>> views;
    views.reserve(static_cast<std::size_t>(num_messages));
    for (int i = 0; i < num_messages; ++i) views.push_back(view(messages[i], bytes[i]));
    const TensorTable table = write_table(of.layout, mean, n, "mean, ");
    Stream queue = stream_of(stream);
    aggregate_messages(views, of.layout, of.codecs, of.num_workers, context_of(of, run_id, step), table, queue);
  });
}

}  // extern "C"
