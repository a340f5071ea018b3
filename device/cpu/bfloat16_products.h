// How bf16 operands are multiplied on this CPU.
//
// Example:
//   if (FindBfloat16Products() == Bfloat16Products::kWidened) plan = PlanWidenedGemm(spec, threads, device, error);
#pragma once

#include <cstdint>

namespace zeroshard::device {

// As they are, which oneDNN does on CPUs with AVX-512; or widened to fp32 first.
enum class Bfloat16Products : uint8_t { kNative, kWidened };

// What oneDNN has here; it is asked once.
Bfloat16Products FindBfloat16Products();

}  // namespace zeroshard::device
