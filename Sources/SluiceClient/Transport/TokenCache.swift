import Foundation

/// Stores the app's token until the gateway rejects it. If several callers need a token at the same time, the app's
/// closure is called only once.
actor TokenCache {
    private let provider: @Sendable () async throws -> String
    private var token: String?
    private var pendingToken: Promise<String>?

    init(_ provider: @escaping @Sendable () async throws -> String) { self.provider = provider }

    /// Returns the stored token, or calls the app's closure for a token.
    ///
    /// If the task is cancelled, the method returns immediately, even if the app's closure does not.
    ///
    /// - Parameter refused: a token that was not accepted. If the stored token is still this token, the app's closure
    ///   is called for another token.
    func token(insteadOf refused: String? = nil) async throws -> String {
        if let token, token != refused { return token }
        token = nil
        return try await (pendingToken ?? requestToken()).value
    }

    private func requestToken() -> Promise<String> {
        let promise = Promise<String>()
        pendingToken = promise
        Task {
            do { take(.success(try await provider()), promise) } catch { take(.failure(error), promise) }
        }
        return promise
    }

    private func take(_ result: Result<String, any Error>, _ promise: Promise<String>) {
        // if ``forget()`` was called during the request, the token is not stored
        if pendingToken === promise {
            pendingToken = nil
            token = try? result.get()
        }
        promise.set(result)
    }

    /// Removes the stored token, because the app may have another token.
    func forget() {
        token = nil
        pendingToken = nil
    }
}

/// Reads the owner of a token: issuer, organization and user. The owner is unknown if the token is not a JWT that
/// contains them.
///
/// The token is not verified here, because the gateway verifies it. The owner is only used to prevent the client from
/// sending one user's writes with another user's token.
enum TokenOwner {
    static func of(_ token: String) -> String? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3 else { return nil }
        var text = parts[1].replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        text += String(repeating: "=", count: (4 - text.count % 4) % 4)
        guard let data = Data(base64Encoded: text), let claims = try? JSON(parsing: data), claims["sub"] != nil else {
            return nil
        }
        return JSON.array([claims["iss"] ?? .null, claims["org"] ?? .null, claims["sub"] ?? .null]).text
    }
}
