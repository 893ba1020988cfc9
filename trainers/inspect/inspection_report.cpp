#include "trainers/inspect/inspection_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "datasets/formats/npy.h"
#include "kernels/runtime/version.h"

namespace terngrad {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMinNameWidth = 8;

/// A number with fixed decimals; "-" if it is not finite.
std::string number(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "-";
}

/// At most four digits: 32.06, 4.066, 0.080.
std::string bits(double value) { return number(value, value < 9.9995 ? 3 : value < 99.995 ? 2 : 1); }

/// About three digits, also for numbers far above 1.
std::string fraction(double value) {
  return number(value, value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0);
}

/// A normalized error: 0.2349, 2.1e-05, exact.
std::string error(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "-" : "lost";
  if (value == 0) return "exact";
  return value < 9.9995e-4 ? fmt::format("{:.1e}", value) : number(value, value < 9.99995 ? 4 : value < 999.95 ? 2 : 0);
}

/// A rate in GB/s.
std::string rate(double bytes_per_second) {
  const double gigabytes = 1e-9 * bytes_per_second;
  return number(gigabytes, gigabytes < 9.995 ? 2 : gigabytes < 99.95 ? 1 : 0);
}

/// A column: two caption lines, width including the blank before it, and a function for its cells.
struct Column {
  std::string above, caption;
  std::size_t width;
  std::function<std::string(const CodecDistortion&, const InspectionResult&)> cell;
};

std::vector<Column> columns_of(const Inspection& inspection, bool with_speed) {
  using D = CodecDistortion;
  using R = InspectionResult;
  std::vector<Column> columns = {
      {"code", "bits", 6, [](const D& d, const R&) { return bits(d.code_bits); }},
      {"all", "bits", 6, [](const D& d, const R&) { return bits(d.message_bits); }},
      {"", "cosine", 7, [](const D& d, const R&) { return number(d.cosine, 4); }},
      {"", "vNMSE", 8, [](const D& d, const R&) { return error(d.vnmse); }},
      {"sent", "norm", 6, [](const D& d, const R&) { return fraction(d.kept_norm); }},
      {"", "zeros", 6, [](const D& d, const R&) { return number(d.zero_fraction, 3); }},
      {"max", "error", 6, [](const D& d, const R&) { return fraction(d.max_error); }},
  };
  if (inspection.num_workers > 1) {
    columns.push_back({"mean", "vNMSE", 8, [](const D& d, const R&) { return error(d.mean_vnmse.value_or(NAN)); }});
  }
  if (std::ranges::any_of(inspection.results, [](const R& r) { return r.all.residual_norm.has_value(); })) {
    columns.push_back(
        {"resid.", "norm", 7, [](const D& d, const R&) { return fraction(d.residual_norm.value_or(NAN)); }});
  }
  if (with_speed) {
    columns.push_back({"enc", "GB/s", 5, [](const D&, const R& r) { return rate(r.encode_bytes_per_second); }});
    columns.push_back({"dec", "GB/s", 5, [](const D&, const R& r) { return rate(r.decode_bytes_per_second); }});
  }
  return columns;
}

/// The table of all codecs, for all tensors or for one.
std::string table(const Inspection& inspection, std::optional<std::size_t> tensor, int width) {
  const std::vector<Column> columns = columns_of(inspection, !tensor);
  std::size_t taken = 0;
  for (const Column& column : columns) taken += column.width;
  std::size_t longest = kMinNameWidth;
  for (const InspectionResult& result : inspection.results) longest = std::max(longest, result.codec.given.size());
  const auto room = static_cast<std::size_t>(std::max(width, 80));
  const std::size_t name_width = std::min(longest, std::max(kMinNameWidth, room - std::min(room, taken)));
  std::string text;
  const auto line = [&](const std::string& name, const std::function<std::string(const Column&)>& cell) {
    if (name.size() > name_width) text += name + "\n";
    text += fmt::format("{:<{}}", name.size() > name_width ? "" : name, name_width);
    for (const Column& column : columns) text += fmt::format("{:>{}}", cell(column), column.width);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  };
  line("", [](const Column& column) { return column.above; });
  line("codec", [](const Column& column) { return column.caption; });
  for (const InspectionResult& result : inspection.results) {
    const CodecDistortion& row = tensor ? result.tensors[*tensor] : result.all;
    line(result.codec.given, [&](const Column& column) { return column.cell(row, result); });
  }
  return text;
}

std::string plural(std::uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const CodecDistortion& d) {
  Json json{{"code_bits_per_element", number_or_null(d.code_bits)},
            {"message_bits_per_element", number_or_null(d.message_bits)},
            {"ratio", number_or_null(32 / d.message_bits)},
            {"cosine", number_or_null(d.cosine)},
            {"vnmse", number_or_null(d.vnmse)},
            {"kept_norm", number_or_null(d.kept_norm)},
            {"zero_fraction", number_or_null(d.zero_fraction)},
            {"max_error", number_or_null(d.max_error)}};
  if (d.mean_vnmse) json["mean_vnmse"] = number_or_null(*d.mean_vnmse);
  if (d.residual_norm) json["residual_norm"] = number_or_null(*d.residual_norm);
  return json;
}

}  // namespace

std::string to_text(const Inspection& inspection, bool per_tensor, int width) {
  std::string text = inspection.source + "\n";
  if (inspection.steps.size() > 1) {
    text += fmt::format("{} ({} to {}), ", plural(inspection.steps.size(), "step"), inspection.steps.front(),
                        inspection.steps.back());
  }
  text += fmt::format("{} of {} in {}\n", plural(static_cast<std::uint64_t>(inspection.num_workers), "worker"),
                      plural(static_cast<std::uint64_t>(inspection.layout.num_elements()), "element"),
                      plural(static_cast<std::uint64_t>(inspection.layout.num_segments()), "tensor"));
  text += "\n" + table(inspection, std::nullopt, width);
  for (const InspectionResult& result : inspection.results) {
    if (result.codec.memory != "none" && result.all.residual_norm) {
      text += fmt::format("{} keeps {}, {:.4g} bytes for an element and worker\n", result.codec.given,
                          result.codec.memory, result.kept_bytes);
    }
  }
  for (int index = 0; per_tensor && index < inspection.layout.num_segments(); ++index) {
    const Segment& segment = inspection.layout.segment(index);
    text += fmt::format("\n{} {}, {}\n", segment.name, shape_text(segment.shape),
                        plural(static_cast<std::uint64_t>(segment.num_elements), "element"));
    text += table(inspection, static_cast<std::size_t>(index), width);
  }
  return text;
}

nlohmann::ordered_json to_json(const Inspection& inspection) {
  Json json{{"command", "terngrad_codec inspect"},
            {"version", version()},
            {"commit", commit()},
            {"source", inspection.source},
            {"steps", inspection.steps},
            {"num_workers", inspection.num_workers},
            {"num_elements", inspection.layout.num_elements()},
            {"seed", inspection.seed},
            {"codecs", Json::array()}};
  for (const InspectionResult& result : inspection.results) {
    Json row{{"codec", result.codec.given}, {"canonical", result.codec.canonical}, {"memory", result.codec.memory}};
    row.update(to_json(result.all));
    row["kept_bytes_per_element"] = result.kept_bytes;
    row["residual_norms"] = Json::array();
    for (const double norm : result.residual_norms) row["residual_norms"].push_back(number_or_null(norm));
    row["encode_bytes_per_second"] = number_or_null(result.encode_bytes_per_second);
    row["decode_bytes_per_second"] = number_or_null(result.decode_bytes_per_second);
    row["tensors"] = Json::array();
    for (int index = 0; index < inspection.layout.num_segments(); ++index) {
      const Segment& segment = inspection.layout.segment(index);
      Json tensor{{"name", segment.name}, {"shape", segment.shape}};
      tensor.update(to_json(result.tensors[static_cast<std::size_t>(index)]));
      row["tensors"].push_back(std::move(tensor));
    }
    json["codecs"].push_back(std::move(row));
  }
  return json;
}

}  // namespace terngrad
