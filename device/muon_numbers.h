// The numbers of Muon's passes (step_kernels.h), the same on every device.
//
// Example:
//   p[i] = std::fma(kMuonB, a[i], kMuonC * a_squared[i]);
#pragma once

namespace zeroshard::device {

// Added to the norm that a direction is divided by.
inline constexpr double kMuonNormEpsilon = 1e-7;
// Newton-Schulz coefficients: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
inline constexpr float kMuonA = 3.4445f, kMuonB = -4.7750f, kMuonC = 2.0315f;

}  // namespace zeroshard::device
