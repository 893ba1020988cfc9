#include "trainers/inspect/rate_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <vector>

namespace terngrad {
namespace {

constexpr double kWidth = 760, kHeight = 480;
constexpr double kLeft = 58, kRight = 744, kTop = 56, kBottom = 428;
constexpr double kLineHeight = 14;
constexpr double kCharacterWidth = 6.3;  // of the labels, at most on average

/// Okabe and Ito's colours, told apart by most people who see few; on dark ground a little lighter.
constexpr std::array<std::string_view, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                      "#B07800", "#3F97C9", "#777777"};

struct Point {
  std::string label;
  std::size_t colour = 0;
  double rate = 0;  // bits
  double snr = 0;   // dB
  bool exact = false;
  double x = 0, y = 0;              // of the dot
  double label_x = 0, label_y = 0;  // of the label's left end, and of its middle
};

/// Of a label as it stands.
struct Box {
  double left, right, top, bottom;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      result += c;
  }
  return result;
}

std::vector<Point> points_of(const Inspection& inspection) {
  std::vector<Point> points;
  std::vector<std::string> names;
  for (const InspectionResult& result : inspection.results) {
    const std::string name = result.codec.canonical.substr(0, result.codec.canonical.find(':'));
    const auto known = std::ranges::find(names, name);
    const auto colour = static_cast<std::size_t>(known - names.begin());
    if (known == names.end()) names.push_back(name);
    const bool exact = std::isinf(result.all.snr_db) && result.all.snr_db > 0;
    if (!exact && !std::isfinite(result.all.snr_db)) continue;  // nothing but zeros
    points.push_back({.label = result.codec.given + (exact ? " (exact)" : ""),
                      .colour = colour % kColours.size(),
                      .rate = result.all.message_bits,
                      .snr = exact ? 0 : result.all.snr_db,
                      .exact = exact});
  }
  return points;
}

/// Where axes begin and end.
struct Axes {
  double log_least = 0, log_most = 5;   // base 2
  double least = 0, most = 10, by = 5;  // dB

  explicit Axes(const std::vector<Point>& points) {
    for (const Point& point : points) {
      log_least = std::min(log_least, std::floor(std::log2(point.rate)));
      log_most = std::max(log_most, std::ceil(std::log2(point.rate) - 0.02));
      if (point.exact) continue;
      least = std::min(least, point.snr);
      most = std::max(most, point.snr);
    }
    while ((most - least) / by > 9) by *= 2;
    least = by * std::floor(least / by);
    most = by * std::ceil(most / by + 0.2);  // room for what is exact above all others
  }
  double x(double rate) const {
    return kLeft + 12 + (kRight - kLeft - 24) * (std::log2(rate) - log_least) / (log_most - log_least);
  }
  double y(double snr) const { return kBottom - (kBottom - kTop) * (snr - least) / (most - least); }
};

/// Puts each label beside its dot, on the side that has room, and moves it up or down until it meets no other label and
/// no dot.
void place_labels(std::vector<Point>& points) {
  std::vector<Box> taken;
  taken.reserve(2 * points.size());
  for (const Point& point : points) taken.push_back({point.x - 4, point.x + 4, point.y - 4, point.y + 4});
  for (Point& point : points) {
    const double length = kCharacterWidth * static_cast<double>(point.label.size());
    const bool fits_right = point.x + 8 + length < kRight;
    for (int attempt = 0; attempt < 60; ++attempt) {
      // First on one side, then on the other, at the dot's height, then below and above, further and further.
      const bool to_right = fits_right == (attempt % 2 == 0) || point.x - 8 - length < kLeft;
      const int rank = attempt / 2;
      const int lines = (rank + 1) / 2;
      const double shift = kLineHeight * lines * (rank % 2 == 0 ? -1 : 1);
      point.label_x = to_right ? std::min(point.x + 8, kRight - length) : point.x - 8 - length;
      point.label_y = point.y + shift;
      const Box box{point.label_x, point.label_x + length, point.label_y - 6, point.label_y + 6};
      const bool is_inside = box.top > kTop - 8 && box.bottom < kBottom;
      if (is_inside && std::ranges::none_of(taken, [&](const Box& other) { return box.meets(other); })) {
        taken.push_back(box);
        break;
      }
    }
  }
}

std::string style() {
  std::string text =
      "<style>\n.ground{fill:#fff}.ink{fill:#1a1a1a}.soft{fill:#555}.grid{stroke:#ddd}.axis{stroke:#777}"
      ".label{stroke:#fff;stroke-width:3;stroke-linejoin:round;paint-order:stroke}\n";
  for (std::size_t i = 0; i < kColours.size(); ++i) text += fmt::format(".c{}{{color:{}}}", i, kColours[i]);
  text += ".dot{fill:currentColor}.leader{stroke:currentColor}\n";
  text +=
      "@media (prefers-color-scheme:dark){.ground{fill:#14171a}.ink{fill:#ececec}.soft{fill:#a8b0b7}"
      ".grid{stroke:#34393f}.axis{stroke:#8b9299}.label{stroke:#14171a}.dot,.leader{filter:brightness(1.35)}}\n</"
      "style>\n";
  return text;
}

}  // namespace

std::string rate_plot(const Inspection& inspection) {
  std::vector<Point> points = points_of(inspection);
  const Axes axes(points);
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(
      out,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>Rate and distortion of {2}</title>\n{3}",
      kWidth, kHeight, escaped(inspection.source), style());
  fmt::format_to(out, "<rect class=\"ground\" width=\"{}\" height=\"{}\"/>\n", kWidth, kHeight);
  fmt::format_to(out, "<text class=\"ink\" x=\"{}\" y=\"24\" font-size=\"14\" font-weight=\"bold\">{}</text>\n", kLeft,
                 "Rate and distortion");
  fmt::format_to(out, "<text class=\"soft\" x=\"{}\" y=\"41\">{}</text>\n", kLeft, escaped(inspection.source));
  for (double log_rate = axes.log_least; log_rate <= axes.log_most; ++log_rate) {
    const double x = axes.x(std::exp2(log_rate));
    fmt::format_to(out, "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/>", x, kTop, kBottom);
    fmt::format_to(out, "<text class=\"ink\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{:g}</text>\n", x,
                   kBottom + 16, std::exp2(log_rate));
  }
  for (double snr = axes.least; snr <= axes.most; snr += axes.by) {
    fmt::format_to(out, "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>", kLeft, axes.y(snr), kRight);
    fmt::format_to(out, "<text class=\"ink\" text-anchor=\"end\" x=\"{}\" y=\"{:.1f}\">{:g}</text>\n", kLeft - 6,
                   axes.y(snr) + 4, snr);
  }
  fmt::format_to(out, "<path class=\"axis\" fill=\"none\" d=\"M{0} {1}V{2}H{3}\"/>\n", kLeft, kTop, kBottom, kRight);
  fmt::format_to(out, "<text class=\"ink\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\n", (kLeft + kRight) / 2,
                 kHeight - 14, "bits per element, scalers and headers included");
  fmt::format_to(out,
                 "<text class=\"ink\" text-anchor=\"middle\" transform=\"translate(16 {}) rotate(-90)\">{}</text>\n",
                 (kTop + kBottom) / 2, "signal to noise of what is sent, dB");
  for (Point& point : points) {
    point.x = axes.x(point.rate);
    point.y = point.exact ? kTop : axes.y(point.snr);
  }
  std::ranges::stable_sort(points, {}, &Point::x);
  place_labels(points);
  for (const Point& point : points) {
    fmt::format_to(out, "<g class=\"c{}\">", point.colour);
    if (std::fabs(point.label_y - point.y) > 1) {
      const bool is_left = point.label_x < point.x;
      const double end =
          is_left ? point.label_x + kCharacterWidth * static_cast<double>(point.label.size()) : point.label_x;
      fmt::format_to(out, "<path class=\"leader\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>", point.x, point.y,
                     is_left ? std::min(end, point.x) : end - 1, point.label_y);
    }
    if (point.exact) {
      fmt::format_to(out, "<path class=\"dot\" d=\"M{:.1f} {:.1f}l5 9h-10z\"/>", point.x, point.y - 5);
    } else {
      fmt::format_to(out, "<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", point.x, point.y);
    }
    const bool is_left = point.label_x < point.x;
    const double anchor =
        is_left ? point.label_x + kCharacterWidth * static_cast<double>(point.label.size()) : point.label_x;
    fmt::format_to(
        out,
        "<text class=\"ink label\" text-anchor=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"11.5\">{}</text></g>\n",
        is_left ? "end" : "start", anchor, point.label_y + 4, escaped(point.label));
  }
  return text + "</svg>\n";
}

}  // namespace terngrad
