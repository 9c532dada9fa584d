import Foundation

/// Asks the app for a token once for any number of callers, and keeps the token until the gateway rejects it.
actor TokenCache {
    private let provider: @Sendable () async throws -> String
    private var token: String?
    private var asking: Promise<String>?

    init(_ provider: @escaping @Sendable () async throws -> String) { self.provider = provider }

    /// Returns the stored token, or asks the app for a token.
    ///
    /// If the task is cancelled, the method returns immediately, even if the app's closure does not.
    ///
    /// - Parameter refused: a token that was not accepted. The app is asked for another token, unless it has already
    ///   returned one since.
    func token(insteadOf refused: String? = nil) async throws -> String {
        if let token, token != refused { return token }
        token = nil
        return try await (asking ?? ask()).value
    }

    private func ask() -> Promise<String> {
        let promise = Promise<String>()
        asking = promise
        Task {
            do { take(.success(try await provider()), promise) } catch { take(.failure(error), promise) }
        }
        return promise
    }

    private func take(_ result: Result<String, any Error>, _ promise: Promise<String>) {
        // a token that was requested before ``forget()`` is not kept
        if asking === promise {
            asking = nil
            token = try? result.get()
        }
        promise.give(result)
    }

    /// Forgets the token, because the app may have another token.
    func forget() {
        token = nil
        asking = nil
    }
}

/// Identifies the owner of a token: issuer, organization and user, if it is a JWT that contains them.
///
/// It does not verify the token, because the gateway does. It only prevents a user's writes from being sent under the
/// name of another user.
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
