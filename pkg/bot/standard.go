package bot

// standard are all screens of the bot, by whom they are for.
func standard() Routes {
	return join(commonRoutes(), memberRoutes(), guestRoutes(), guestCardRoutes(), operatorRoutes())
}
