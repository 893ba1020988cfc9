#include "trainers/commands/paper_figure.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

namespace terngrad {
namespace {

/// Where gains are given: where the text of the paper has one, and on all GPUs.
constexpr std::array kGainGpus = {8, 512};

const char* gradients_of(const PaperBars& bars) { return bars.is_ternary ? "ternary" : "fp32"; }

ModelledBars modelled(const PaperCluster& cluster, const PaperBars& bars) {
  ModelledBars row{.bars = bars, .model = {}};
  for (const int num_gpus : paper_gpus()) {
    row.model.push_back(paper_throughput(cluster, paper_net(bars.net), bars.codec(), num_gpus));
  }
  return row;
}

PaperGain gain_of(const PaperCluster& cluster, const PaperNet& net, int num_gpus) {
  return {
      .net = net.name,
      .num_gpus = num_gpus,
      .chart = paper_bar(cluster.name, net.name, true, num_gpus) / paper_bar(cluster.name, net.name, false, num_gpus),
      .model = paper_speed_up(cluster, net, kPaperTernary, kPaperFp32, num_gpus)};
}

std::string downlink_text(const DownlinkRow& row) {
  if (row.downlink == "t2") return "2 bits, as the chart";
  if (row.downlink == "lanes") return fmt::format("sums, {:.0f} bits", row.downlink_bits);
  return row.downlink;
}

void add_bars(const PaperFigure& figure, std::string& text) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{:4}", "");
  for (std::size_t net = 0; net < paper_nets().size(); ++net) fmt::format_to(out, "{:>32}", paper_nets()[net].name);
  fmt::format_to(out, "\n{:4}", "");
  for (const ModelledBars& row : figure.bars) fmt::format_to(out, "{:>16}", gradients_of(row.bars));
  fmt::format_to(out, "\n{:4}", "GPUs");
  for (std::size_t i = 0; i < figure.bars.size(); ++i) fmt::format_to(out, "{:>8}{:>8}", "chart", "model");
  for (std::size_t i = 0; i < paper_gpus().size(); ++i) {
    fmt::format_to(out, "\n{:>4}", paper_gpus()[i]);
    for (const ModelledBars& row : figure.bars) {
      fmt::format_to(out, "{:>8.0f}{:>8.0f}", row.bars.images_per_second[i], row.model[i]);
    }
  }
  text += "\n";
}

void add_gains(const PaperFigure& figure, std::string& text) {
  auto out = std::back_inserter(text);
  for (const int num_gpus : kGainGpus) {
    fmt::format_to(out, "{:<25}", fmt::format("on {} GPUs", num_gpus));
    for (const PaperGain& gain : figure.gains) {
      if (gain.num_gpus == num_gpus) fmt::format_to(out, "{:>15.2f}  | {:<5.2f}", gain.chart, gain.model);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
}

void add_net_names(const char* first, std::string& text) {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<25}", first);
  for (const PaperNet& net : paper_nets()) fmt::format_to(out, "{:>19}    ", net.name);
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
}

void add_speed_ups_by_downlink(const PaperFigure& figure, std::string& text) {
  auto out = std::back_inserter(text);
  for (const DownlinkRow& row : figure.by_downlink) {
    fmt::format_to(out, "{:<25}", downlink_text(row));
    for (const DownlinkSpeedUp& gain : row.speed_ups) {
      fmt::format_to(out, "{:>15.2f}  | {:<5.2f}", gain.over_fp32, gain.over_bf16);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
}

}  // namespace

PaperFigure make_paper_figure(const PaperCluster& cluster) {
  PaperFigure figure{.cluster = cluster,
                     .bars = {},
                     .rms_percent = paper_rms_percent(cluster),
                     .gains = {},
                     .by_downlink = speed_ups_by_downlink(cluster, cluster.num_gpus())};
  for (const PaperBars& bars : paper_bars()) {
    if (bars.cluster == cluster.name) figure.bars.push_back(modelled(cluster, bars));
  }
  for (const PaperNet& net : paper_nets()) {
    for (const int num_gpus : kGainGpus) figure.gains.push_back(gain_of(cluster, net, num_gpus));
  }
  return figure;
}

std::string to_text(const PaperFigure& figure) {
  std::string text =
      fmt::format("Figure 5 ({}) of Wen et al., NIPS 2017: images/s of its bars and of a model, rms {:.2f} %\n",
                  figure.cluster.figure, figure.rms_percent);
  add_bars(figure, text);
  text += "\n";
  add_net_names("Ternary over fp32:", text);
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<25}", "chart | model");
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  add_gains(figure, text);
  text += "\n";
  add_net_names("2 bits up, and down:", text);
  fmt::format_to(out, "over fp32 | bf16, {} GPUs\n", figure.cluster.num_gpus());
  add_speed_ups_by_downlink(figure, text);
  text += "The chart counts 2 bits in both directions, for which the mean has to be ternarized again.\n";
  return text;
}

nlohmann::ordered_json to_json(const PaperFigure& figure) {
  using List = nlohmann::ordered_json;
  List json{{"figure", figure.cluster.figure}, {"gpus", List::array()}, {"rms_percent", figure.rms_percent}};
  for (const int num_gpus : paper_gpus()) json["gpus"].push_back(num_gpus);
  for (const ModelledBars& row : figure.bars) {
    json["bars"].push_back({{"net", row.bars.net},
                            {"gradients", gradients_of(row.bars)},
                            {"chart", row.bars.images_per_second},
                            {"model", row.model},
                            {"weights", row.bars.weights}});
  }
  for (const PaperGain& gain : figure.gains) {
    json["speed_ups"].push_back(
        {{"net", gain.net}, {"gpus", gain.num_gpus}, {"chart", gain.chart}, {"model", gain.model}});
  }
  List rows = List::array();
  for (const DownlinkRow& row : figure.by_downlink) {
    List speed_ups = List::array();
    for (std::size_t i = 0; i < row.speed_ups.size(); ++i) {
      speed_ups.push_back({{"net", paper_nets()[i].name},
                           {"over_fp32", row.speed_ups[i].over_fp32},
                           {"over_bf16", row.speed_ups[i].over_bf16}});
    }
    rows.push_back({{"uplink_bits", 2},
                    {"downlink", row.downlink},
                    {"downlink_bits", row.downlink_bits},
                    {"speed_ups", std::move(speed_ups)}});
  }
  json["by_downlink"] = {{"gpus", figure.cluster.num_gpus()}, {"rows", std::move(rows)}};
  return json;
}

}  // namespace terngrad
