#include "zeroshard/tools/activation_flags.h"

namespace zeroshard::tools {
namespace {

constexpr char kGroup[] = "ACTIVATIONS: what forward keeps for backward";

}  // namespace

void ActivationFlags::Register(FlagSet& flags) {
  flags.Integer("activation_checkpoint_every", &every_, {.least = 0, .most = int64_t{1} << 30},
                {.group = kGroup,
                 .text = "Keep only the input of so many blocks, and run their forward again in backward; 0: keep all.",
                 .example = "--activation_checkpoint_every=1",
                 .unit = "blocks"});
  flags.Boolean("activation_checkpoints_on_host", &on_host_,
                {.group = kGroup,
                 .text = "These inputs wait in host memory in place of the device's.",
                 .example = "--activation_checkpoints_on_host"});
}

void ActivationFlags::Apply(model::GptOptions& model) const {
  model.checkpoint_every = every_;
  model.checkpoints_on_host = on_host_;
}

}  // namespace zeroshard::tools
