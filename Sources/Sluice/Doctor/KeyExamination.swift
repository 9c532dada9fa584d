import CommandSupport
import SyncModel
import SyncUpstream
import Tokens

/// Checks whether tokens can be verified, and those for upstreams signed.
struct KeyExamination {
    let settings: Settings
    let reader: HTTPReader

    func diagnoses() async -> [Diagnosis] {
        [await verifier()] + exclusivity() + identities() + (await keySets()) + (await signer())
    }

    /// Reports issuers whose user claim is unsuitable, and organizations that two issuers share.
    private func identities() -> [Diagnosis] {
        guard let configuration = try? settings.tokenConfiguration() else { return [] }
        let cautions = configuration.issuers.flatMap { ProviderCautions.of(IssuerSettings($0, configuration)) }
        return cautions + ProviderCautions.sharedOrganizations(configuration)
    }

    /// Checks configured keys; published ones are checked separately.
    private func verifier() async -> Diagnosis {
        do throws(ConfigurationError) {
            _ = try await settings.tokenVerifier()
            let count = try settings.tokenConfiguration().issuers.count
            return .ok("keys", "all configured keys are usable" + (count == 1 ? "" : ", of \(count) issuers"))
        } catch {
            return .failed("keys", error.description, "Without a usable key, `sluice serve` does not start.")
        }
    }

    /// Reports public keys whose tokens neither issuer nor audience distinguishes.
    ///
    /// The settings permit them because the operator declared that the keys are used for this gateway alone.
    private func exclusivity() -> [Diagnosis] {
        guard let configuration = try? settings.tokenConfiguration() else { return [] }
        let open = configuration.issuers.filter { issuer in
            (issuer.jwksURL != nil || !issuer.keys.isEmpty) && (issuer.issuer == nil || issuer.audience == nil)
        }
        guard !open.isEmpty else { return [] }
        return [
            .warning(
                "exclusive keys",
                "tokens of any issuer or audience are accepted with these keys, as set by "
                    + "\(Setting.jwtExclusiveKeys.variable) or "
                    + "exclusive_keys",
                "Only use it for a key that you created for this gateway. An identity provider's keys sign for its "
                    + "other "
                    + "customers too: set \(Setting.jwtIssuer.variable) and \(Setting.jwtAudience.variable) for them."
            )
        ]
    }

    private func keySets() async -> [Diagnosis] {
        guard let configuration = try? settings.tokenConfiguration() else { return [] }
        var diagnoses: [Diagnosis] = []
        for url in Set(configuration.issuers.compactMap(\.jwksURL)).sorted() {
            diagnoses += await keySet(at: url)
        }
        return diagnoses
    }

    private func keySet(at url: String) async -> [Diagnosis] {
        let subject = "keys of \(KeySetURL.shown(url))"
        let advice =
            "Correct the URL, or check the provider. `sluice serve` starts without it, returns 503, and recovers."
        switch await reader.keySet(url, nil) {
        case .failed(let reason): return [.failed(subject, "cannot be fetched: \(reason)", advice)]
        case .unchanged: return [.failed(subject, "cannot be fetched: the response is empty", advice)]
        case .document(let text, _, _):
            let source = TokenKeySource(name: "the document", text: String(decoding: text, as: UTF8.self))
            do {
                let (usable, skipped) = try await source.examine()
                let others = skipped.isEmpty ? "" : "; not used: \(skipped.prefix(10).joined(separator: ", "))"
                let finding = "\(usable) usable\(others)"
                let isForgeable = KeySetURL.isOpenToForgery(url)
                if usable > 0 {
                    return [.ok(subject, finding)]
                        + (isForgeable
                            ? [.warning(subject + " (http)", "attackers can replace them", "Use https.")] : [])
                }
                return [.failed(subject, finding, "Use RS256, ES256 (P-256) or EdDSA (Ed25519) keys.")]
            } catch {
                return [.failed(subject, "cannot be used: \(error)", advice)]
            }
        }
    }

    private func signer() async -> [Diagnosis] {
        do throws(ConfigurationError) {
            guard try await settings.requestSigner() != nil else { return [] }
            return [.ok("signing key", "can be used")]
        } catch {
            return [.failed("signing key", error.description, "`sluice serve` does not start with it.")]
        }
    }
}
