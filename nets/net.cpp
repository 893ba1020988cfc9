#include "nets/net.h"

#include <array>

#include "kernels/runtime/errors.h"
#include "nets/cpu/cpu_net.h"
#include "nets/models/alexnet.h"
#include "nets/models/alexnet_v2.h"
#include "nets/models/cifar10_alexnet.h"
#include "nets/models/cifarnet.h"
#include "nets/models/googlenet.h"
#include "nets/models/googlenet_2014.h"
#include "nets/models/inception_v3.h"
#include "nets/models/lenet.h"
#include "nets/models/resnet.h"
#include "nets/models/resnet_cifar.h"
#include "nets/models/torchvision.h"
#include "nets/models/vgg.h"
#include "nets/net_plan.h"

namespace terngrad {
namespace {

struct RegisteredNet {
  const char* name;
  ImageShape image;  // image shape of its paper or of the original code
  int num_classes;
  NetSpec (*spec)(const NetConfig&);
};

constexpr ImageShape kMnist = {28, 28, 1};
constexpr ImageShape kCroppedCifar = {24, 24, 3};
constexpr ImageShape kCifar = {32, 32, 3};
constexpr ImageShape kImagenet = {224, 224, 3};
constexpr int kImagenetClasses = 1001;  // class 0 is unused, as in the original

/// All nets. A new one takes a source file with its spec and one line here.
constexpr std::array kNets = {
    RegisteredNet{"alexnet", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) { return alexnet(config.dropout_keep_prob); }},
    RegisteredNet{"alexnet_v2", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) { return alexnet_v2(config.dropout_keep_prob); }},
    RegisteredNet{"cifar10_alexnet", kCroppedCifar, 10, [](const NetConfig&) { return cifar10_alexnet(); }},
    RegisteredNet{"cifarnet", kCifar, 10, [](const NetConfig& config) { return cifarnet(config.dropout_keep_prob); }},
    RegisteredNet{"googlenet", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) { return googlenet(config.dropout_keep_prob); }},
    RegisteredNet{"googlenet_2014", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) { return googlenet_2014(config.dropout_keep_prob); }},
    RegisteredNet{"inception_v3",
                  {299, 299, 3},
                  kImagenetClasses,
                  [](const NetConfig& config) { return inception_v3(config.dropout_keep_prob); }},
    RegisteredNet{"lenet", kMnist, 10, [](const NetConfig&) { return lenet(); }},
    RegisteredNet{"resnet_18", kImagenet, kImagenetClasses, [](const NetConfig&) { return resnet_18(); }},
    RegisteredNet{"resnet_18_cifar", kCifar, 10, [](const NetConfig&) { return resnet_18_cifar(); }},
    RegisteredNet{"resnet_20", kCifar, 10, [](const NetConfig&) { return resnet_cifar("resnet_20", 3); }},
    RegisteredNet{"resnet_50", kImagenet, kImagenetClasses, [](const NetConfig&) { return resnet_50(); }},
    RegisteredNet{"resnet_56", kCifar, 10, [](const NetConfig&) { return resnet_cifar("resnet_56", 9); }},
    RegisteredNet{"torchvision_alexnet", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) { return torchvision_alexnet(config.dropout_keep_prob); }},
    RegisteredNet{"torchvision_googlenet", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) { return torchvision_googlenet(config.dropout_keep_prob); }},
    RegisteredNet{"torchvision_inception_v3",
                  {299, 299, 3},
                  kImagenetClasses,
                  [](const NetConfig& config) { return torchvision_inception_v3(config.dropout_keep_prob); }},
    RegisteredNet{"torchvision_vgg_16", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) { return torchvision_vgg_16(config.dropout_keep_prob); }},
    RegisteredNet{"vgg_16", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) {
                    return vgg("vgg_16", {2, 2, 3, 3, 3}, config.dropout_keep_prob);
                  }},
    RegisteredNet{"vgg_a", kImagenet, kImagenetClasses,
                  [](const NetConfig& config) {
                    return vgg("vgg_a", {1, 1, 2, 2, 2}, config.dropout_keep_prob);
                  }},
};

const RegisteredNet& registered_net(const std::string& name) {
  std::string known;
  for (const RegisteredNet& net : kNets) {
    if (name == net.name) return net;
    known += (known.empty() ? "" : ", ") + std::string(net.name);
  }
  TERNGRAD_THROW(InvalidArgument, "[net_spec] there is no net '", name, "'; there are: ", known);
}

}  // namespace

std::vector<int> Net::gradient_order() const {
  std::vector<int> order;
  for (int segment = layout().num_segments(); segment-- > 0;) order.push_back(segment);
  return order;
}

std::vector<std::string> net_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kNets));
  for (const RegisteredNet& net : kNets) names.emplace_back(net.name);
  return names;
}

NetSpec net_spec(const std::string& name, const NetConfig& config) { return registered_net(name).spec(config); }

Layout net_layout(const std::string& name) {
  const RegisteredNet& net = registered_net(name);
  return plan_net(net.spec({}), net.image, net.num_classes).layout;
}

std::unique_ptr<Net> make_net(const NetSpec& spec, const ImageShape& shape, int num_classes,
                              const NetOptions& options) {
  return cpu::make_net(plan_net(spec, shape, num_classes), options);
}

std::unique_ptr<Net> make_net(const std::string& name, const ImageShape& shape, int num_classes,
                              const NetOptions& options, const NetConfig& config) {
  return make_net(net_spec(name, config), shape, num_classes, options);
}

}  // namespace terngrad
