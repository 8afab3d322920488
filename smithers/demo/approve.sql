UPDATE state SET value = json_quote('approved') WHERE key = 'phase';
