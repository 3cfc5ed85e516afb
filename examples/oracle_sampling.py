"""Samplers beside the law they should draw from: an exact network leaves no error but the sampler's own."""

import torch

import tokenloom as tl

BATCH = 4000


def main() -> dict[str, float]:
    """The total variation between p_0 and what each sampler draws, with 32 evaluations."""
    p0 = torch.tensor([[1.0, 6, 3], [6, 1, 8], [2, 9, 1]]).double() / 37
    udm = tl.Oracle(p0, tl.Uniform(3), predicts=tl.LeaveOneOut)
    mdm = tl.Oracle(p0, tl.Masked(3), predicts=tl.Denoiser)
    audm = tl.Oracle(p0, tl.AbsorbingUniform(3), predicts=tl.Denoiser)
    chains = [
        ("UDM ancestral", udm, tl.Sampler.parse("ancestral", steps=32)),
        ("UDM Psi", udm, tl.Sampler(tl.samplers.Psi(kappa=0.9), steps=32)),
        ("UDM with a Gibbs corrector", udm, tl.Sampler.parse("ancestral + random-scan", steps=32)),
        ("MDM ancestral", mdm, tl.Sampler.parse("ancestral", steps=32)),
        ("MUDM from the masked model", mdm, tl.Sampler.parse("mudm", steps=32)),
        ("ReAUDM", audm, tl.Sampler.parse("reaudm", steps=32)),
    ]
    distances = {}
    for name, model, sampler in chains:
        tokens = sampler.run(model, BATCH, length=2, generator=torch.Generator().manual_seed(0)).tokens
        drawn = torch.bincount(tokens[:, 0] * 3 + tokens[:, 1], minlength=9).double() / BATCH
        distances[name] = float((drawn - p0.flatten()).abs().sum()) / 2
    return distances


if __name__ == "__main__":
    for name, distance in main().items():
        print(f"{name:28} {distance:.4f}")
